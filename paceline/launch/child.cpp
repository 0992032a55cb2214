#include "paceline/launch/child.h"

#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "paceline/core/posix/descriptor.h"

namespace paceline::launch {
namespace {

constexpr int kSignalBase = 128;  // a shell's exit code for a signal is this much higher

// As exec wants them: pointers into `strings`, null at the end.
std::vector<char*> pointers(rpc::Strings& strings) {
  std::vector<char*> result;
  for (std::string& string : strings) result.push_back(string.data());
  result.push_back(nullptr);
  return result;
}

}  // namespace

arrow::Result<pid_t> start_child(const rpc::Strings& command, const rpc::StringMap& environment,
                                 const Descriptor& terminal) {
  rpc::Strings arguments = command;
  rpc::Strings entries;
  for (const auto& [name, value] : environment) entries.push_back(name + "=" + value);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none, all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  if (terminal) {
    ::tcsetpgrp(terminal.get(), ::getpgrp());
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
      ::posix_spawn_file_actions_adddup2(&actions, terminal.get(), stream);
    }
  }
  pid_t child = 0;
  errno = ::posix_spawn(&child, arguments[0].c_str(), &actions, &attributes, pointers(arguments).data(),
                        pointers(entries).data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (errno != 0) return errno_status("cannot start " + command[0]);
  return child;
}

ExitStatus wait_for_child(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return exit_status_from_wait(status);
}

void end_like(const ExitStatus& status) {
  if (status.signal == 0) ::_exit(status.exit_code);
  const rlimit no_core{};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::prctl(PR_SET_DUMPABLE, 0);  // a core pattern that is a program heeds no limit
  ::signal(status.signal, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
  ::raise(status.signal);
  ::_exit(kSignalBase + status.signal);
}

}  // namespace paceline::launch
