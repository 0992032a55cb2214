// Sampler: what a process's threads do while they use a processor, sampled by the process itself.
//
// Each thread gets a timer on its own processor clock, which sends it SIGPROF. The handler copies the registers and the
// top of the stack into memory that is shared with whoever reads the samples; nothing is unwound, named or allocated in
// the process: the guardian's helper does that afterwards (SampleReader, then stacks/symbols.h). So it needs no
// privilege, no frame pointers and no file, and a thread that sleeps or waits costs nothing and has no samples.
//
// Where there would be more samples than the memory holds, all are taken less often, and each counts for more; what
// does not fit all the same is counted as dropped. Threads that are younger than a tenth of a second, and threads that
// block SIGPROF, are not seen (SampledThread::blocks_signal).
//
// SIGPROF belongs to one user. If the program has a handler of its own (Python's `signal`, gperftools, ITIMER_PROF),
// start() refuses. The handler stays installed afterwards and does nothing; another user may then take the signal. As
// with every profiler, calls that the kernel does not restart (poll(), nanosleep()) may now and then end with EINTR.
//
// Threading: one sampler in a process at a time; its methods on one thread at a time. A child that is forked meanwhile
// has no timers and samples nothing; destroying its copy there does nothing.
#pragma once

#include <arrow/result.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/posix/descriptor.h"
#include "paceline/core/posix/shared_memory.h"
#include "paceline/stacks/snapshot.h"

namespace paceline::stacks {

/// Odd, so that it does not beat with what happens a hundred times a second.
inline constexpr double kSampleRate = 99;
/// Deeper stacks lose their outermost frames.
inline constexpr size_t kMostSampleStack = size_t{32} << 10;

struct SamplerOptions {
  /// Samples for each second of processor time.
  double rate = kSampleRate;
  std::chrono::duration<double> length = std::chrono::seconds(5);
  /// For so many there is memory, of which each takes what its stack has, at most kMostSampleStack.
  size_t most_samples = 8192;
};

class Sampler {
 public:
  /// Begins. Invalid when a sampler runs already or somebody else has SIGPROF, saying who; IOError when the system has
  /// no memory or timers for it.
  static arrow::Result<std::unique_ptr<Sampler>> start(SamplerOptions options);
  /// Ends it, if it has not ended by itself.
  virtual ~Sampler() = default;

  /// For SampleReader, here or in another process; samples come while it is read.
  virtual const Descriptor& memory() const = 0;
  /// Whether it has ended: `length` is over, or somebody else has taken SIGPROF.
  virtual bool has_ended() const = 0;
  virtual void stop() = 0;
};

struct SampledThread {
  pid_t tid = 0;
  std::string name;
  bool blocks_signal = false;  // so there are no samples of it
  double cpu_s = 0;            // that it used meanwhile; 0 of one that has ended
};

/// One sample. Counts for `count` of the rate's intervals.
struct Sample {
  int64_t count = 1;
  ThreadSnapshot thread;  // its tid, registers and stack
  bool is_cut = false;    // the stack was deeper
};

/// Reads what a Sampler has noted. Threading: one thread at a time.
class SampleReader {
 public:
  /// Invalid when it is no sampler's memory.
  static arrow::Result<SampleReader> open(Descriptor memory);

  /// Waits for the sampler's end, until `deadline` at most; whether it has come. One whose process has died has none.
  bool wait_until(std::chrono::steady_clock::time_point deadline) const;
  pid_t pid() const;
  double rate() const;
  /// For how long it has sampled; as planned before its end.
  double seconds() const;
  int64_t dropped() const;
  /// Why it has ended before its time, or does not sample some threads; "" if nothing was wrong.
  std::string problem() const;
  std::vector<SampledThread> threads() const;
  size_t size() const;
  /// nullopt for one that is not whole: its thread was killed over it.
  std::optional<Sample> at(size_t index) const;

 private:
  explicit SampleReader(SharedMemory memory) : memory_(std::move(memory)) {}

  SharedMemory memory_;
};

}  // namespace paceline::stacks
