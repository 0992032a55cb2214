#include "paceline/agent/guardian.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include "paceline/agent/guardian_internal.h"
#include "paceline/agent/process_tree_internal.h"
#include "paceline/core/posix/pidfd.h"
#include "paceline/core/posix/socket_pair.h"

namespace paceline::agent {
namespace {

// As fork(), but the child's end raises no signal, and wait() and waitpid(-1) do not see the child: a user's program
// that waits for all its children must not wait for the guardian. fork() cannot do this. What it would do beyond (locks
// of other threads, pthread_atfork) is not needed where no other thread holds a lock: housekeeping threads must be
// asleep all the while, and the child is thrown away when one was not.
pid_t fork_unseen() {
  constexpr int kAttempts = 100;
  for (int attempt = 1;; ++attempt) {
    const auto sleeps = sleeps_of_housekeeping();
    if (!sleeps && attempt < kAttempts) {
      ::sched_yield();
      continue;
    }
    const auto pid = static_cast<pid_t>(::syscall(SYS_clone, 0, nullptr, nullptr, nullptr, 0));
    if (pid <= 0 || attempt >= kAttempts || sleeps_of_housekeeping() == sleeps) return pid;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, __WALL);
  }
}

constexpr std::chrono::milliseconds kEndPatience{10'000};

// Whether the process, a child, has ended in that time; it is reaped then.
bool reap(pid_t pid, std::chrono::milliseconds patience) {
  const auto process = open_pidfd(pid);
  if (process.ok()) {
    pollfd end{process->get(), POLLIN, 0};
    const auto deadline = std::chrono::steady_clock::now() + patience;
    for (auto left = patience; ::poll(&end, 1, static_cast<int>(left.count())) < 0 && errno == EINTR;) {
      left = std::max(std::chrono::milliseconds(0),
                      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()));
    }
  }
  return ::waitpid(pid, nullptr, __WALL | WNOHANG) != 0;
}

}  // namespace

arrow::Result<Guardian> Guardian::fork_now() {
  ARROW_ASSIGN_OR_RAISE(auto guardian, fork_now(std::nullopt));
  return *std::move(guardian);
}

arrow::Result<std::optional<Guardian>> Guardian::fork_with_workers() {
  return fork_now(own_signal_setup());
}

arrow::Result<std::optional<Guardian>> Guardian::fork_now(std::optional<SignalSetup> worker_signals) {
  ARROW_ASSIGN_OR_RAISE(auto lease, make_socket_pair());
  ARROW_ASSIGN_OR_RAISE(Descriptor driver, open_pidfd(::getpid()));
  const bool has_threads = !other_threads().empty();
  // No handler of the user's may run in the child before it has put its own signals in order.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = has_threads ? ::fork() : fork_unseen();
  if (pid == 0) {
    lease.first.reset();
    if (has_threads) worker_signals.reset();  // what the threads left is good enough for the guardian only
    run_guardian(std::move(lease.second), std::move(driver), worker_signals);
    return std::nullopt;
  }
  const arrow::Status status = pid < 0 ? errno_status("forking the guardian") : arrow::Status::OK();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ARROW_RETURN_NOT_OK(status);
  return Guardian(pid, std::move(lease.first));
}

arrow::Result<Guardian> Guardian::start(const std::string& program) {
  ARROW_ASSIGN_OR_RAISE(auto lease, make_socket_pair());
  ARROW_ASSIGN_OR_RAISE(const Descriptor driver, open_pidfd(::getpid()));
  // Neither may be where the other shall be.
  const Descriptor high_lease(::fcntl(lease.second.get(), F_DUPFD_CLOEXEC, kDriver + 1));
  const Descriptor high_driver(::fcntl(driver.get(), F_DUPFD_CLOEXEC, kDriver + 1));
  if (!high_lease || !high_driver) return errno_status("starting the guardian");
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_adddup2(&files, high_lease.get(), kLease);
  ::posix_spawn_file_actions_adddup2(&files, high_driver.get(), kDriver);
  sigset_t none;
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  char* const arguments[] = {const_cast<char*>(program.c_str()), nullptr};
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, program.c_str(), &files, &attributes, arguments, environ);
  ::posix_spawn_file_actions_destroy(&files);
  ::posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    return arrow::Status::IOError("the guardian, ", program, ", cannot be started: ", std::strerror(error));
  }
  return Guardian(pid, std::move(lease.first));
}

Guardian::Guardian(pid_t pid, Descriptor lease) : pid_(pid), owner_(::getpid()), lease_(std::move(lease)) {}

Guardian& Guardian::operator=(Guardian&& other) noexcept {
  if (this != &other) {
    end();
    pid_ = other.pid_;
    owner_ = other.owner_;
    lease_ = std::move(other.lease_);
  }
  return *this;
}

Guardian::~Guardian() {
  end();
}

void Guardian::end() {
  if (!lease_ || ::getpid() != owner_) return;
  // Closing alone would not end the lease while a process that the user's program has forked holds a copy of it.
  ::shutdown(lease_.get(), SHUT_RDWR);
  lease_.reset();
  ::kill(pid_, SIGCONT);  // somebody may have stopped it
  if (reap(pid_, kEndPatience)) return;
  // This process is its parent: until it is reaped its number is its own.
  if (const auto pidfd = open_pidfd(pid_); pidfd.ok()) kill_tree_from_outside(pid_, pidfd->get());
  reap(pid_, kEndPatience);
}

arrow::Result<Descriptor> Guardian::connect() const {
  ARROW_ASSIGN_OR_RAISE(auto ends, make_socket_pair());
  const std::byte one[] = {std::byte{1}};
  const int passed[] = {ends.second.get()};
  const auto sent = send_some(lease_.get(), one, passed);
  if (!sent.ok()) {
    return sent.status().WithMessage(
        "the guardian (process ", pid_,
        "), which starts the workers, has ended; start the program again: ", sent.status().message());
  }
  return std::move(ends.first);
}

}  // namespace paceline::agent
