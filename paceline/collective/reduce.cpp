#include "paceline/collective/reduce.h"

#include <algorithm>
#include <vector>

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

// Block by block in the first-level cache, and from there past the others.
void reduce_past_caches(const Reduce& what, const void* const* sources, size_t source_count, std::byte* destination,
                        size_t bytes) {
  constexpr size_t kBlockBytes = 8192;
  alignas(64) std::byte block[kBlockBytes];
  void* const to_block = block;
  const size_t value = size_of(what.element);
  std::vector<const void*> from(sources, sources + source_count);
  for (size_t begin = 0; begin < bytes; begin += kBlockBytes) {
    const size_t size = std::min(kBlockBytes, bytes - begin);
    for (size_t i = 0; i < source_count; ++i) from[i] = static_cast<const std::byte*>(sources[i]) + begin;
    instructions().reduce(what, from.data(), source_count, &to_block, 1, size / value);
    instructions().copy_past_caches(destination + begin, block, size);
  }
}

}  // namespace

void reduce(const Reduce& what, const void* const* sources, size_t source_count, void* const* destinations,
            size_t destination_count, size_t count) {
  const size_t bytes = count * size_of(what.element);
  const bool is_in_place =
      std::find(sources, sources + source_count, destinations[0]) != sources + source_count;  // in the caches anyhow
  if (bytes >= kPastCachesBytes && destination_count == 1 && !is_in_place) {
    return reduce_past_caches(what, sources, source_count, static_cast<std::byte*>(destinations[0]), bytes);
  }
  instructions().reduce(what, sources, source_count, destinations, destination_count, count);
}

void copy_past_caches(std::byte* to, const std::byte* from, size_t bytes) {
  instructions().copy_past_caches(to, from, bytes);
}

const char* reduce_instructions() {
  return instructions().name;
}

}  // namespace paceline::collective
