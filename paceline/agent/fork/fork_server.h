// ForkServer: a process that forks workers on its guardian's behalf, so that they begin with what it has loaded.
//
// The guardian starts it like any process and asks it for each worker (guardian_messages.h, ForkWorker). It forks
// twice, so that the worker becomes the guardian's child: watched, and killed with its tree, like those that the
// guardian starts itself. A forked process has only the thread that forked, so this process must have one thread
// whenever it forks; with more it answers with an error that names them. Threading: one thread. Ownership: a forked
// process drops its copy.
#pragma once

#include <arrow/result.h>
#include <sys/types.h>

#include <functional>
#include <optional>

#include "paceline/agent/guardian_messages.h"
#include "paceline/rpc/blocking_socket.h"

namespace paceline::agent {

class ForkServer {
 public:
  /// Takes the channel that the guardian has opened. Invalid in a process that it has not started.
  static arrow::Result<ForkServer> connect();

  /// Serves until the guardian is gone: nullopt then. In each forked process it returns too, with what that process is
  /// to become: its standard streams, working directory and process group are in place; the caller sets its
  /// environment. `fork` is fork() as the program's language requires it; `idle` is called once, when nobody waits for
  /// a process any more, and may take its time: meanwhile a fork of this process, without what `idle` does, serves in
  /// its place.
  arrow::Result<std::optional<ForkWorker>> serve(const std::function<pid_t()>& fork, const std::function<void()>& idle);

 private:
  explicit ForkServer(Descriptor channel) : socket_(std::make_unique<rpc::BlockingSocket>(std::move(channel))) {}
  arrow::Result<pid_t> fork_twice(const std::function<pid_t()>& fork);
  arrow::Status rest(const std::function<pid_t()>& fork, const std::function<void()>& idle);
  bool is_relieved() const;

  std::unique_ptr<rpc::BlockingSocket> socket_;
  Descriptor hold_;    // the last worker begins when this is closed: the guardian knows it then
  Descriptor relief_;  // in the fork that serves meanwhile: closed at the other end when `idle` has returned
  bool rested_ = false;
};

}  // namespace paceline::agent
