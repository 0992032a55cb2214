// A thread of another process that is held for as long as it takes to copy its registers and its stack, with ptrace.
//
// Its wait, if it is in one, goes on afterwards as if nothing had been (of what the kernel cannot resume, epoll_wait()
// alone is common: it ends with EINTR). A process that was stopped (SIGSTOP) stays stopped. Threading: all of it on the
// thread that has seized, which must not have other children that it waits for; ChildSignalBlocked lives meanwhile.
#pragma once

#include <arrow/result.h>

#include <chrono>
#include <csignal>
#include <string>
#include <vector>

#include "paceline/stacks/snapshot.h"

namespace paceline::stacks {

/// Those of a process, the main thread first; none when there is no such process.
std::vector<pid_t> threads_of(pid_t pid);

class HeldThread {
 public:
  explicit HeldThread(pid_t tid) : tid_(tid) {}

  pid_t tid() const { return tid_; }
  /// Has it stop; 0, or an errno.
  int seize();
  enum class Stop { stopped, ended, late };
  Stop wait(std::chrono::steady_clock::time_point deadline);
  /// Of one that has stopped; false when it is gone.
  bool copy_registers(ThreadSnapshot& into) const;
  /// It runs on, or stays stopped.
  void release() const;

 private:
  pid_t tid_;
  int signal_ = 0;
};

/// What a function may use below its stack pointer.
inline constexpr uint64_t kRedZone = 128;

/// The process's stack from a little below the thread's stack pointer on, `most` bytes or what there is of them.
void copy_stack(pid_t pid, uint64_t most, ThreadSnapshot& thread);

/// IOError that says why the process may not be traced, and what to do.
arrow::Status refused(pid_t pid, int error);

/// While it lives, SIGCHLD waits to be taken by sigtimedwait().
class ChildSignalBlocked {
 public:
  ChildSignalBlocked();
  ~ChildSignalBlocked();
  ChildSignalBlocked(const ChildSignalBlocked&) = delete;
  ChildSignalBlocked& operator=(const ChildSignalBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace paceline::stacks
