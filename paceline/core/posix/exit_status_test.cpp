#include "paceline/core/posix/exit_status.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace paceline {
namespace {

ExitStatus status_of(void (*child)()) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    child();
    ::_exit(99);
  }
  int wait_status = 0;
  EXPECT_EQ(::waitpid(pid, &wait_status, 0), pid);
  return exit_status_from_wait(wait_status);
}

TEST(ExitStatus, NamesCodesAndSignals) {
  EXPECT_EQ(describe(status_of([] { ::_exit(3); })), "exited with code 3");
  EXPECT_EQ(describe(status_of([] { ::raise(SIGKILL); })), "was killed by SIGKILL");
  EXPECT_EQ(describe({.signal = SIGSEGV, .core_dumped = true}), "crashed with SIGSEGV (core dumped)");
  EXPECT_EQ(describe({.signal = SIGKILL, .out_of_memory = true}),
            "was killed by SIGKILL (the kernel ran out of memory)");
  EXPECT_EQ(signal_name(77), "signal 77");
}

}  // namespace
}  // namespace paceline
