#include <fcntl.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "paceline/core/error.h"
#include "paceline/core/posix/descriptor.h"
#include "paceline/core/posix/thread.h"
#include "paceline/train/worker/debugger_internal.h"
#include "paceline/train/worker/language_runtime.h"

namespace paceline::train {
namespace {

Descriptor open_terminal() {
  Descriptor terminal(::open("/dev/tty", O_RDWR | O_CLOEXEC));
  if (terminal) return terminal;
  throw UsageError("DebugConfig.debug_rank needs a terminal, and the driver was started without one");
}

// A process in the background may do this only while it does not listen to the signal that would stop it.
void bring_to_front(int terminal, pid_t group) {
  sigset_t stop, before;
  ::sigemptyset(&stop);
  ::sigaddset(&stop, SIGTTOU);
  ::pthread_sigmask(SIG_BLOCK, &stop, &before);
  ::tcsetpgrp(terminal, group);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

pid_t former_foreground = 0;  // 0: the terminal has not been taken

pid_t start_gdb(const Descriptor& terminal, const std::string& told) {
  const std::string process = std::to_string(::getpid());
  const std::string tell = "shell echo >" + told;
  std::vector<std::string> words = {"gdb",  "-q",
                                    "-iex", "set debuginfod enabled off",
                                    "-p",   process,
                                    "-ex",  tell,
                                    "-ex",  "echo \\nThe train loop begins with `continue`.\\n"};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  sigset_t none, all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setpgroup(&attributes, 0);  // Ctrl-C is gdb's alone
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addtcsetpgrp_np(&actions, terminal.get());
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    ::posix_spawn_file_actions_adddup2(&actions, terminal.get(), stream);
  }
  pid_t gdb = 0;
  const int error = ::posix_spawnp(&gdb, "gdb", &actions, &attributes, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    throw UsageError(std::string("DebugConfig.debug_rank needs gdb, which cannot be started: ") + std::strerror(error) +
                     "; install it, or leave debug_rank out");
  }
  return gdb;
}

}  // namespace

void wait_for_debugger() {
  Descriptor terminal = open_terminal();
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw_if_error(errno_status("making a pipe for gdb"));
  const Descriptor read_end(ends[0]);
  Descriptor write_end(ends[1]);
  const pid_t foreground = ::tcgetpgrp(terminal.get());
  // gdb is no ancestor of this process: where ptrace is restricted (Yama), it needs this process's leave.
  ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
  const pid_t gdb = start_gdb(terminal, "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(ends[1]));
  ::prctl(PR_SET_PTRACER, gdb);
  BackgroundThread([gdb, foreground, terminal = std::move(terminal), write_end = std::move(write_end)] {
    while (::waitpid(gdb, nullptr, 0) < 0 && errno == EINTR) {
    }
    // From the background, where SIGTTOU would stop the process; this thread blocks it.
    ::tcsetpgrp(terminal.get(), foreground);
  }).detach();  // closes the write end when gdb is gone
  char told = 0;
  while (::read(read_end.get(), &told, 1) < 0 && errno == EINTR) {
  }
}

void take_terminal() {
  const Descriptor terminal = open_terminal();
  former_foreground = ::tcgetpgrp(terminal.get());
  bring_to_front(terminal.get(), ::getpgrp());
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(terminal.get(), stream);
}

void give_terminal_back() {
  if (former_foreground > 0) bring_to_front(STDIN_FILENO, std::exchange(former_foreground, 0));
}

}  // namespace paceline::train
