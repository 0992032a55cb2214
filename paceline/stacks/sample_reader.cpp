#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ctime>

#include "paceline/stacks/sample_memory_internal.h"
#include "paceline/stacks/sampler.h"

namespace paceline::stacks {
namespace {

const SampleMemory& memory_in(const SharedMemory& shared) {
  return *reinterpret_cast<const SampleMemory*>(shared.bytes().data());
}

}  // namespace

arrow::Result<SampleReader> SampleReader::open(Descriptor descriptor) {
  ARROW_ASSIGN_OR_RAISE(Descriptor second, descriptor.duplicate());
  uint64_t most_samples = 0;
  {
    ARROW_ASSIGN_OR_RAISE(const SharedMemory head, SharedMemory::open(std::move(descriptor), sizeof(SampleMemory)));
    const SampleMemory& memory = memory_in(head);
    if (memory.version != kSampleVersion || memory.most_samples > (size_t{1} << 24)) {
      return arrow::Status::Invalid("memory of samples of another version: wanted ", kSampleVersion, ", got ",
                                    memory.version);
    }
    most_samples = memory.most_samples;
  }
  ARROW_ASSIGN_OR_RAISE(SharedMemory all, SharedMemory::open(std::move(second), SampleMemory::size(most_samples)));
  return SampleReader(std::move(all));
}

bool SampleReader::wait_until(std::chrono::steady_clock::time_point deadline) const {
  const std::atomic<uint32_t>& phase = memory_in(memory_).phase;
  while (phase == static_cast<uint32_t>(SamplePhase::sampling)) {
    const double left = std::chrono::duration<double>(deadline - std::chrono::steady_clock::now()).count();
    if (left <= 0) return false;
    const auto whole = static_cast<time_t>(left);
    const timespec limit{whole, static_cast<long>((left - std::floor(left)) * 1e9)};
    ::syscall(SYS_futex, &phase, FUTEX_WAIT, static_cast<uint32_t>(SamplePhase::sampling), &limit, nullptr, 0);
  }
  return true;
}

pid_t SampleReader::pid() const {
  return memory_in(memory_).pid;
}
double SampleReader::rate() const {
  return memory_in(memory_).rate;
}
double SampleReader::seconds() const {
  return memory_in(memory_).seconds;
}
int64_t SampleReader::dropped() const {
  return static_cast<int64_t>(memory_in(memory_).dropped.load());
}
std::string SampleReader::problem() const {
  const char* text = memory_in(memory_).problem;
  return {text, ::strnlen(text, sizeof SampleMemory::problem)};
}

std::vector<SampledThread> SampleReader::threads() const {
  const SampleMemory& memory = memory_in(memory_);
  std::vector<SampledThread> threads;
  const size_t count = std::min<size_t>(memory.threads.load(std::memory_order_acquire), kMostSampledThreads);
  for (size_t i = 0; i < count; ++i) {
    const NotedThread& noted = memory.thread[i];
    threads.push_back({.tid = noted.tid,
                       .name = {noted.name, ::strnlen(noted.name, sizeof noted.name)},
                       .blocks_signal = noted.blocks_signal != 0,
                       .cpu_s = static_cast<double>(noted.cpu_ns) * 1e-9});
  }
  return threads;
}

size_t SampleReader::size() const {
  const SampleMemory& memory = memory_in(memory_);
  return std::min(memory.next.load(), memory.most_samples);
}

std::optional<Sample> SampleReader::at(size_t index) const {
  const SampleMemory& memory = memory_in(memory_);
  const SampleHead& head = memory.heads()[index];
  if (head.is_whole.load(std::memory_order_acquire) == 0) return std::nullopt;
  Sample sample{.count = head.count};
  sample.thread.tid = head.tid;
  sample.thread.registers = head.registers;
  sample.thread.stack_start = head.stack_start;
  const size_t size = std::min<size_t>(head.stack_size, kMostSampleStack);
  const std::byte* stack =
      memory_.bytes().data() + SampleMemory::stacks_start(memory.most_samples) + index * kMostSampleStack;
  sample.thread.stack.assign(stack, stack + size);
  sample.is_cut = size == kMostSampleStack;
  return sample;
}

}  // namespace paceline::stacks
