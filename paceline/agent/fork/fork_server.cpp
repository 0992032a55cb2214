#include "paceline/agent/fork/fork_server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "paceline/agent/fork/worker_fork_internal.h"
#include "paceline/agent/process_tree_internal.h"
#include "paceline/agent/spawn_internal.h"

namespace paceline::agent {
namespace {

arrow::Status check_threads() {
  const size_t threads = other_threads().size() + 1;
  if (threads == 1) return arrow::Status::OK();
  return arrow::Status::Invalid("the process that workers are forked from must have one thread, but it has ", threads,
                                ": a module that it has imported starts threads");
}

void wait_for_end(const Descriptor& pipe) {
  char byte;
  while (::read(pipe.get(), &byte, 1) < 0 && errno == EINTR) {
  }
}

// What ForkWorker's descriptors become.
arrow::Status take_place(ForkWorker& worker, std::vector<Descriptor> descriptors) {
  if (descriptors.size() != 3) return arrow::Status::Invalid("a worker is forked with three descriptors");
  worker.environment[rpc::kChannelVariable] = std::to_string(descriptors[2].release());
  return take_streams_and_directory(descriptors[0], descriptors[1], worker.directory);
}

}  // namespace

arrow::Result<ForkServer> ForkServer::connect() {
  const char* variable = std::getenv(kForkServerVariable);
  if (variable == nullptr) {
    return arrow::Status::Invalid(kForkServerVariable, " is not set: no guardian has started this process");
  }
  const std::string_view text = variable;
  int number = -1;
  if (std::from_chars(text.data(), text.data() + text.size(), number).ec != std::errc()) {
    return arrow::Status::Invalid(kForkServerVariable, " is \"", text, "\"; wanted the number of a descriptor");
  }
  Descriptor channel(number);
  ::unsetenv(kForkServerVariable);
  if (::fcntl(channel.get(), F_SETFD, FD_CLOEXEC) != 0) return errno_status("taking the guardian's channel");
  // While it rests it does not look at the channel. The processes that it forks do not inherit this.
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return errno_status("tying the fork server to its guardian");
  return ForkServer(std::move(channel));
}

arrow::Result<std::optional<ForkWorker>> ForkServer::serve(const std::function<pid_t()>& fork,
                                                           const std::function<void()>& idle) {
  bool waited_for = false;
  while (true) {
    if (relief_ && !waited_for && is_relieved()) ::_exit(0);
    ARROW_ASSIGN_OR_RAISE(auto request, socket_->receive());
    hold_.reset();
    if (!request) return std::nullopt;
    waited_for = request->type != Idle::kType;
    if (!waited_for) {
      // What has been read already would be this process's and its stand-in's, and begun twice.
      if (socket_->is_drained() && !std::exchange(rested_, true)) ARROW_RETURN_NOT_OK(rest(fork, idle));
      continue;
    }
    ARROW_ASSIGN_OR_RAISE(ForkWorker worker, rpc::unpack<ForkWorker>(*request));
    const auto pid = fork_twice(fork);
    if (pid.ok() && *pid == 0) {
      socket_.reset();
      relief_.reset();
      ARROW_RETURN_NOT_OK(take_place(worker, std::move(request->descriptors)));
      return worker;
    }
    request.reset();  // the worker's ends of its pipes are its own
    const Forked reply = pid.ok() ? Forked{.pid = *pid} : Forked{.error = pid.status().message()};
    ARROW_RETURN_NOT_OK(socket_->send(rpc::pack(reply)));
  }
}

// Returns in two processes: at once in the fork that serves meanwhile, and in this one when the fork has given it its
// place back.
arrow::Status ForkServer::rest(const std::function<pid_t()>& fork, const std::function<void()>& idle) {
  ARROW_ASSIGN_OR_RAISE(auto relief, make_pipe());
  const pid_t stand_in = fork();
  if (stand_in < 0) return errno_status("forking a process that serves meanwhile");
  if (stand_in == 0) {
    relief_ = std::move(relief.first);
    return arrow::Status::OK();
  }
  idle();
  relief.second.reset();
  int status = 0;
  while (::waitpid(stand_in, &status, 0) < 0 && errno == EINTR) {
  }
  if (status != 0) return arrow::Status::IOError("the process that served meanwhile has failed");
  return arrow::Status::OK();
}

// Waits for the next request or the end of the rest; true at the latter, unless a request has been begun to be read.
bool ForkServer::is_relieved() const {
  if (!socket_->is_drained()) return false;
  std::array<pollfd, 2> events = {{{relief_.get(), POLLIN, 0}, {socket_->descriptor(), POLLIN, 0}}};
  while (::poll(events.data(), events.size(), -1) < 0 && errno == EINTR) {
  }
  return events[0].revents != 0;
}

// 0 in the forked process. The one between ends at once, so that the guardian, a subreaper, is the other's parent.
arrow::Result<pid_t> ForkServer::fork_twice(const std::function<pid_t()>& fork) {
  ARROW_RETURN_NOT_OK(check_threads());
  ARROW_ASSIGN_OR_RAISE(auto pid_pipe, make_pipe());
  ARROW_ASSIGN_OR_RAISE(auto hold, make_pipe());
  auto& [from_between, to_server] = pid_pipe;
  const pid_t between = fork();
  if (between < 0) return errno_status("forking a worker");
  if (between == 0) {
    const pid_t worker = fork();
    if (worker == 0) {
      hold.second.reset();
      wait_for_end(hold.first);
      return 0;
    }
    [[maybe_unused]] const ssize_t written = ::write(to_server.get(), &worker, sizeof worker);
    ::_exit(0);
  }
  to_server.reset();
  pid_t worker = -1;
  const ssize_t size = ::read(from_between.get(), &worker, sizeof worker);
  while (::waitpid(between, nullptr, 0) < 0 && errno == EINTR) {
  }
  hold_ = std::move(hold.second);
  if (size != sizeof worker || worker < 0) return arrow::Status::IOError("forking a worker failed");
  return worker;
}

}  // namespace paceline::agent
