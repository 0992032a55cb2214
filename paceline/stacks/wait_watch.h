// WaitWatch: where the threads of a process wait, looked at from outside, kWaitRate times a second.
//
// The kernel tells of each thread whether it waits, in which call, and how often it has been given a processor. The
// stack of a thread does not change while it waits, so it is copied once for each wait, for which the thread is held
// for some ten microseconds (held_thread_internal.h) and then waits on. A thread that runs is not touched. How
// long a thread has run, and has wanted to without a processor, the kernel counts exactly: the rest of its time is what
// its waits share, as often as each was seen. What it has wanted a processor for is told as time in kWantsProcessor.
//
// Needs the right to trace the process, as capture() does; nothing happens in it, so it may hang, be stopped, or be any
// program. Threading: all of it on one thread, which must not have other children that it waits for meanwhile.
#pragma once

#include <arrow/result.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "paceline/stacks/profile.h"
#include "paceline/stacks/snapshot.h"
#include "paceline/stacks/symbols.h"

namespace paceline::stacks {

class HeldThread;

/// Waits that matter are longer than those of computations, so half of kSampleRate; odd for the same reason.
inline constexpr double kWaitRate = 49;

class WaitWatch {
 public:
  /// `most_stacks`: for so many there is room; waits beyond them count for an earlier one in the same call. IOError
  /// when there is no such process, or it may not be traced.
  static arrow::Result<WaitWatch> begin(pid_t pid, size_t most_stacks);
  WaitWatch(WaitWatch&&) noexcept;
  WaitWatch& operator=(WaitWatch&&) = delete;
  /// No thread is held afterwards.
  ~WaitWatch();

  /// Looks once; a thread that waits now has done so for so many of the rate's intervals.
  void look(int64_t intervals);
  /// Unwinds and names what has been seen; the process may have ended.
  Profile profile(Symbols& symbols) const;

 private:
  struct Wait {
    ThreadSnapshot thread;
    std::string state;  // a frame that says more than the stack does, or ""
    bool is_cut = false;
    int64_t intervals = 0;
  };
  struct ProcessorTime {
    int64_t run_ns = 0, ready_ns = 0;
  };
  struct Thread {
    std::string folder;
    std::string name;
    std::string call;   // that it waited in when it was looked at last; "" when it ran
    std::string turns;  // on a processor, until then
    bool was_held = false;
    std::map<std::string, size_t> waits;  // its last one in each call
    ProcessorTime before, last;
    std::chrono::steady_clock::time_point first_seen, last_seen;
  };

  explicit WaitWatch(pid_t pid, size_t most_stacks);
  void find_threads();
  bool look_at(pid_t tid, Thread& thread, int64_t intervals);
  static ProcessorTime time_in(const std::string& schedule);
  static double seconds_waited(const Thread& thread);
  bool take_stack(pid_t tid, const Thread& thread, Wait& wait);
  void release_late(std::chrono::steady_clock::time_point deadline);

  pid_t pid_;
  size_t most_stacks_;
  std::string maps_;
  std::map<pid_t, Thread> threads_;
  std::vector<pid_t> living_;
  std::vector<Wait> waits_;
  std::vector<HeldThread> late_;  // which have not stopped yet
  int64_t missed_ = 0;            // intervals of waits that were over when the thread was held
  int64_t looks_ = 0;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point ended_ = began_;  // the last look at which it lived
  std::chrono::steady_clock::time_point looked_ = began_;
};

/// Looks at them all, for so long.
void look_for(std::vector<WaitWatch>& watches, std::chrono::duration<double> length);

}  // namespace paceline::stacks
