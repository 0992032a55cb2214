#include "paceline/core/posix/process_title.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

namespace paceline {
namespace {

std::string command_line() {
  std::ifstream file("/proc/self/cmdline");
  std::stringstream text;
  text << file.rdbuf();
  return text.str().c_str();  // NOLINT(readability-redundant-string-cstr): up to the first zero
}

// In a forked process: the test's own command line stays.
template <class Check>
bool holds_in_a_fork(const Check& check) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(check() ? 0 : 1);
  int status = -1;
  ::waitpid(pid, &status, 0);
  return status == 0;
}

TEST(ProcessTitle, IsShownInPlaceOfTheCommandLine) {
  EXPECT_TRUE(holds_in_a_fork([] { return set_process_title("rank 0").ok() && command_line() == "rank 0"; }));
}

TEST(ProcessTitle, IsCutOffWhereTheCommandLineEnds) {
  const size_t room = [] {
    std::ifstream file("/proc/self/cmdline");
    std::stringstream text;
    text << file.rdbuf();
    return text.str().size();
  }();
  EXPECT_TRUE(holds_in_a_fork([room] {
    return set_process_title(std::string(room + 100, 'x')).ok() && command_line() == std::string(room - 1, 'x');
  }));
}

}  // namespace
}  // namespace paceline
