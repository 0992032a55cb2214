// Guardian: the small process that starts every process of a run and outlives none of them.
//
// init() forks it before threads exist. It is a child subreaper, the parent of every worker, and holds one end of a
// socket pair as its lease: when the other end closes, because the driver ended in whatever way, it kills all trees
// below it and ends. So no worker survives its driver, and the driver's own SIGCHLD and children stay the user's.
// When a process ends, what is left of its tree (re-parented to the guardian) is killed before its exit is reported.
//
// Guardian (the driver's handle) is not thread-safe; the agent's thread uses it after the fork.
#pragma once

#include <arrow/result.h>
#include <sys/types.h>

#include "paceline/core/posix/descriptor.h"

namespace paceline::agent {

class Guardian {
 public:
  /// Forks the guardian. Call while the process has one thread; the child closes every descriptor but its lease and
  /// standard error. IOError when it cannot be forked.
  static arrow::Result<Guardian> fork_now();

  Guardian(Guardian&&) = default;
  Guardian& operator=(Guardian&&) = default;
  /// Ends the guardian (and so every process below it) and reaps it.
  ~Guardian();

  pid_t pid() const { return pid_; }
  /// A duplicate of the driver's end of the lease, on which the agent speaks the guardian's messages
  /// (guardian_messages.h) as frames. One agent at a time.
  arrow::Result<Descriptor> connect() const;

 private:
  Guardian(pid_t pid, Descriptor lease);

  pid_t pid_ = 0;
  Descriptor lease_;
};

}  // namespace paceline::agent
