#include "paceline/collective/reduce.h"

namespace paceline::collective {

namespace avx512 {
void reduce(const Reduce& what, const void* const* sources, size_t source_count, void* const* destinations,
            size_t destination_count, size_t count);
}
namespace avx2 {
void reduce(const Reduce& what, const void* const* sources, size_t source_count, void* const* destinations,
            size_t destination_count, size_t count);
}
namespace portable {
void reduce(const Reduce& what, const void* const* sources, size_t source_count, void* const* destinations,
            size_t destination_count, size_t count);
}

namespace {

struct Instructions {
  const char* name;
  decltype(&portable::reduce) reduce;
};

Instructions best() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
    return {"avx512", &avx512::reduce};
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c")) return {"avx2", &avx2::reduce};
#endif
  return {"portable", &portable::reduce};
}

const Instructions& instructions() {
  static const Instructions chosen = best();
  return chosen;
}

}  // namespace

void reduce(const Reduce& what, const void* const* sources, size_t source_count, void* const* destinations,
            size_t destination_count, size_t count) {
  instructions().reduce(what, sources, source_count, destinations, destination_count, count);
}

const char* reduce_instructions() {
  return instructions().name;
}

}  // namespace paceline::collective
