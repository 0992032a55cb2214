#include "paceline/core/posix/exit_status.h"

#include <sys/wait.h>

#include <csignal>
#include <cstring>

namespace paceline {

ExitStatus exit_status_from_wait(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    return {.signal = WTERMSIG(wait_status), .core_dumped = static_cast<bool>(WCOREDUMP(wait_status))};
  }
  return {.exit_code = WEXITSTATUS(wait_status)};
}

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? "signal " + std::to_string(signal) : std::string("SIG") + name;
}

std::string describe(const ExitStatus& status) {
  if (status.signal == 0) return "exited with code " + std::to_string(status.exit_code);
  const bool crash = status.signal == SIGSEGV || status.signal == SIGBUS || status.signal == SIGILL ||
                     status.signal == SIGFPE || status.signal == SIGABRT;
  std::string words = (crash ? "crashed with " : "was killed by ") + signal_name(status.signal);
  if (status.out_of_memory) {
    words += " (the kernel ran out of memory)";
  } else if (status.ended_by_paceline) {
    words += " (sent by Paceline)";
  } else if (status.core_dumped) {
    words += " (core dumped)";
  }
  return words;
}

}  // namespace paceline
