// The progress word: step, phase and since-when of a process, in memory shared with its agent.
//
// The process writes, the agent reads, both without locks or system calls: what it says is the last truth about a
// process that has died or stopped.
#pragma once

#include <arrow/result.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "paceline/core/clock.h"
#include "paceline/core/posix/shared_memory.h"

namespace paceline {

enum class Phase : uint32_t {
  starting = 0,
  training,
  data,
  backward,
  collective,
  checkpoint,
  report,
  validation,
  ended,
  failing  // an exception has left the train loop; what and where is being found out
};

/// "training", "checkpoint", …
std::string to_string(Phase phase);

/// Layout of the shared memory; a version in front keeps agents and processes of other builds apart.
struct ProgressWord {
  std::atomic<uint32_t> version;
  std::atomic<uint32_t> phase;
  std::atomic<int64_t> step;
  std::atomic<int64_t> since_ns;  // Unix time at which the phase began
};

/// What the word says at one moment.
struct ProgressReading {
  Phase phase = Phase::starting;
  int64_t step = 0;
  Time since;  // when the phase began
};

/// The writer's side. Thread-safe; it must not outlive `clock`.
class Progress {
 public:
  /// New shared memory that says: starting, step 0, since now.
  static arrow::Result<Progress> create(const Clock& clock);
  void set_phase(Phase phase);
  void set_step(int64_t step);
  Phase phase() const;
  int64_t step() const;
  const SharedMemory& memory() const { return memory_; }

 private:
  Progress(SharedMemory memory, const Clock& clock);
  ProgressWord& word() const;

  SharedMemory memory_;
  const Clock* clock_;
};

/// The reader's side, in another process. Works on after the writer has died.
class ProgressReader {
 public:
  /// Maps the memory behind the descriptor that came with Joined. Invalid when it is too small or of another version.
  static arrow::Result<ProgressReader> open(Descriptor memory);
  ProgressReading read() const;

 private:
  explicit ProgressReader(SharedMemory memory);

  SharedMemory memory_;
};

}  // namespace paceline
