// The memory to which a sampler writes, and which SampleReader reads, perhaps in another process.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "paceline/stacks/sampler.h"
#include "paceline/stacks/snapshot.h"

namespace paceline::stacks {

inline constexpr uint32_t kSampleVersion = 1;
inline constexpr size_t kMostSampledThreads = 1024;

enum class SamplePhase : uint32_t { sampling, ended };

struct NotedThread {
  int32_t tid;
  uint32_t blocks_signal;
  int64_t cpu_ns;
  char name[16];
};

// One sample, whose stack stands at its number's place behind all heads.
struct SampleHead {
  std::atomic<uint32_t> is_whole;
  int32_t tid;
  uint32_t count;
  uint32_t stack_size;
  uint64_t stack_start;
  Registers registers;
};

// The start of the memory: then most_samples heads, then as many stacks, from a page's start. Pages that nothing is
// written to cost nothing.
struct SampleMemory {
  uint32_t version;
  std::atomic<uint32_t> phase;  // a futex
  int32_t pid;
  std::atomic<uint32_t> count;  // of the rate's intervals, that each sample stands for now
  uint64_t most_samples;
  double rate;
  std::atomic<double> seconds;
  std::atomic<uint64_t> next;
  std::atomic<uint64_t> dropped;
  std::atomic<uint32_t> threads;
  char problem[512];
  NotedThread thread[kMostSampledThreads];

  SampleHead* heads() { return reinterpret_cast<SampleHead*>(this + 1); }
  const SampleHead* heads() const { return reinterpret_cast<const SampleHead*>(this + 1); }
  static size_t stacks_start(uint64_t most_samples) {
    const size_t end = sizeof(SampleMemory) + most_samples * sizeof(SampleHead);
    constexpr size_t kPage = 4096;
    return (end + kPage - 1) / kPage * kPage;
  }
  static size_t size(uint64_t most_samples) { return stacks_start(most_samples) + most_samples * kMostSampleStack; }
};
static_assert(std::atomic<double>::is_always_lock_free && std::atomic<uint64_t>::is_always_lock_free);

}  // namespace paceline::stacks
