// Base of tests that start processes: after each test no process below this one and no descriptor is left.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "paceline/core/posix/pidfd.h"

namespace paceline::agent {

/// Guards waiting only: no test waits that long.
inline constexpr std::chrono::seconds kDeadline{60};

/// A program that was built beside this test.
inline std::string program_beside_test(const std::string& name) {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
}

/// For what a test needs but does not test.
inline void must(const arrow::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.ToString());
}

inline Descriptor pidfd_of(const std::string& pid) {
  return open_pidfd(std::stoi(pid)).ValueOrDie();
}

inline bool has_ended(const Descriptor& pidfd) {
  pollfd event{pidfd.get(), POLLIN, 0};
  return ::poll(&event, 1, 0) == 1;
}

/// Sends `signal` to the process behind `pidfd`, which may have ended.
inline void signal_process(const Descriptor& pidfd, int signal) {
  if (::syscall(SYS_pidfd_send_signal, pidfd.get(), signal, nullptr, 0) == 0 || errno == ESRCH) return;
  throw std::runtime_error(errno_status("sending a signal").ToString());
}

class ProcessFixture : public testing::Test {
 protected:
  void SetUp() override {
    // What would be left behind becomes a child of this process.
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    descriptors_ = count_descriptors();
  }

  void TearDown() override {
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG | __WALL), -1) << "a process was left behind";
    EXPECT_EQ(errno, ECHILD);
    EXPECT_EQ(count_descriptors(), descriptors_);
  }

 private:
  static int64_t count_descriptors() { return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}); }

  int64_t descriptors_ = 0;
};

}  // namespace paceline::agent
