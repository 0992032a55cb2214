// Guardian: the small process that starts every process of a run and outlives none of them.
//
// init() forks it; Python's driver starts it as a program of its own. Forked from a process with one thread, it is a
// copy of the program at the place of init(), and can fork workers that go on from there. It is a
// child subreaper, the parent of every worker, and holds one end of a socket pair as its lease: when the other end
// closes, because the driver ended in whatever way, it kills all trees below it and ends. So no worker survives its
// driver, and the driver's own SIGCHLD and children stay the user's: the guardian's end raises no SIGCHLD, and wait()
// in the user's program does not see it. When a process ends, what is left of its tree (re-parented to the guardian) is
// killed before its exit is reported.
//
// Guardian (the driver's handle) is not thread-safe. Ownership: the process that forked it; a copy of the handle in a
// process that the driver forks does nothing.
#pragma once

#include <arrow/result.h>
#include <sys/types.h>

#include <optional>
#include <string>

#include "paceline/agent/fork/forkable.h"
#include "paceline/core/posix/descriptor.h"

namespace paceline::agent {

class Guardian {
 public:
  /// Forks the guardian. The child closes every descriptor but its lease and standard error. That of a process with
  /// more than one thread is an ordinary child, which wait() sees. IOError when it cannot be forked.
  static arrow::Result<Guardian> fork_now();
  /// As fork_now(), and returns once more, nullopt, in each worker that the guardian forks (Spawn::fork): a process
  /// like one that was executed and has come to this place of main(). It forks none when the process has threads;
  /// why_not_forkable() says what else speaks against it.
  static arrow::Result<std::optional<Guardian>> fork_with_workers();
  /// Starts the guardian from `program`, the file paceline_guardian: for drivers that are no program of ours. It is an
  /// ordinary child, which wait() sees. IOError when it cannot be started.
  static arrow::Result<Guardian> start(const std::string& program);

  Guardian(Guardian&&) = default;
  Guardian& operator=(Guardian&& other) noexcept;
  /// Ends the guardian (and so every process below it) and reaps it. One that does not end within ten seconds, because
  /// a process below it hangs in the kernel, is killed with all below it.
  ~Guardian();

  pid_t pid() const { return pid_; }
  /// A new connection to the guardian, on which the messages of guardian_messages.h travel as frames. Closing it ends
  /// every process that was started over it. IOError when the guardian has ended.
  arrow::Result<Descriptor> connect() const;

 private:
  Guardian(pid_t pid, Descriptor lease);
  static arrow::Result<std::optional<Guardian>> fork_now(std::optional<SignalSetup> worker_signals);
  void end();

  pid_t pid_ = 0;
  pid_t owner_ = 0;
  Descriptor lease_;
};

}  // namespace paceline::agent
