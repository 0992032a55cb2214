#include "paceline/core/progress.h"

namespace paceline {
namespace {

constexpr uint32_t kProgressVersion = 1;

// Lock-free atomics are what makes the word readable from another process.
static_assert(std::atomic<uint32_t>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free);

ProgressWord& word_in(const SharedMemory& memory) {
  return *reinterpret_cast<ProgressWord*>(memory.bytes().data());
}

}  // namespace

std::string to_string(Phase phase) {
  switch (phase) {
    case Phase::starting:
      return "starting";
    case Phase::training:
      return "training";
    case Phase::data:
      return "data";
    case Phase::backward:
      return "backward";
    case Phase::collective:
      return "collective";
    case Phase::checkpoint:
      return "checkpoint";
    case Phase::report:
      return "report";
    case Phase::validation:
      return "validation";
    case Phase::ended:
      return "ended";
    case Phase::failing:
      return "failing";
  }
  return "phase " + std::to_string(static_cast<uint32_t>(phase));
}

Progress::Progress(SharedMemory memory, const Clock& clock) : memory_(std::move(memory)), clock_(&clock) {}

arrow::Result<Progress> Progress::create(const Clock& clock) {
  ARROW_ASSIGN_OR_RAISE(SharedMemory memory, SharedMemory::create("paceline-progress", sizeof(ProgressWord)));
  Progress progress(std::move(memory), clock);
  progress.set_phase(Phase::starting);
  progress.word().version = kProgressVersion;
  return progress;
}

ProgressWord& Progress::word() const {
  return word_in(memory_);
}

void Progress::set_phase(Phase phase) {
  word().since_ns.store(clock_->now().time_since_epoch().count(), std::memory_order_relaxed);
  word().phase.store(static_cast<uint32_t>(phase), std::memory_order_release);
}

void Progress::set_step(int64_t step) {
  word().step.store(step, std::memory_order_relaxed);
}

Phase Progress::phase() const {
  return static_cast<Phase>(word().phase.load(std::memory_order_relaxed));
}

int64_t Progress::step() const {
  return word().step.load(std::memory_order_relaxed);
}

ProgressReader::ProgressReader(SharedMemory memory) : memory_(std::move(memory)) {}

arrow::Result<ProgressReader> ProgressReader::open(Descriptor descriptor) {
  ARROW_ASSIGN_OR_RAISE(SharedMemory memory, SharedMemory::open(std::move(descriptor), sizeof(ProgressWord)));
  const uint32_t version = word_in(memory).version;
  if (version != kProgressVersion) {
    return arrow::Status::Invalid("progress word of another version: wanted ", kProgressVersion, ", got ", version);
  }
  return ProgressReader(std::move(memory));
}

ProgressReading ProgressReader::read() const {
  const ProgressWord& word = word_in(memory_);
  ProgressReading reading;
  reading.phase = static_cast<Phase>(word.phase.load(std::memory_order_acquire));
  reading.step = word.step.load(std::memory_order_relaxed);
  reading.since = Time{Duration{word.since_ns.load(std::memory_order_relaxed)}};
  return reading;
}

}  // namespace paceline
