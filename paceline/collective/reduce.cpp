#include "paceline/collective/reduce.h"

namespace paceline::collective {

namespace avx512 {
void reduce(const Reduce& what, const void* const* sources, size_t source_count, void* const* destinations,
            size_t destination_count, size_t count);
void copy_past_caches(std::byte* to, const std::byte* from, size_t bytes);
}  // namespace avx512
namespace avx2 {
void reduce(const Reduce& what, const void* const* sources, size_t source_count, void* const* destinations,
            size_t destination_count, size_t count);
void copy_past_caches(std::byte* to, const std::byte* from, size_t bytes);
}  // namespace avx2
namespace portable {
void reduce(const Reduce& what, const void* const* sources, size_t source_count, void* const* destinations,
            size_t destination_count, size_t count);
void copy_past_caches(std::byte* to, const std::byte* from, size_t bytes);
}  // namespace portable

namespace {

struct Instructions {
  const char* name;
  decltype(&portable::reduce) reduce;
  decltype(&portable::copy_past_caches) copy_past_caches;
};

Instructions best() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
    return {"avx512", &avx512::reduce, &avx512::copy_past_caches};
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c"))
    return {"avx2", &avx2::reduce, &avx2::copy_past_caches};
#endif
  return {"portable", &portable::reduce, &portable::copy_past_caches};
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

void copy_past_caches(std::byte* to, const std::byte* from, size_t bytes) {
  instructions().copy_past_caches(to, from, bytes);
}

const char* reduce_instructions() {
  return instructions().name;
}

}  // namespace paceline::collective
