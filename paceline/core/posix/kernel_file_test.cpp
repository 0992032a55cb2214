#include "paceline/core/posix/kernel_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace paceline {
namespace {

TEST(KernelFile, ValuesByTheirNames) {
  constexpr const char* kStatus = "Name:\tSigBlk: 7\nVmLck:\t     16 kB\nSigBlk:\t00000000fff\nEmpty:\n";
  EXPECT_EQ(parse_kernel_value(kStatus, "SigBlk:"), "00000000fff") << "a process's name is anybody's";
  EXPECT_EQ(parse_kernel_value(kStatus, "Empty:"), "");
  EXPECT_EQ(parse_kernel_value(kStatus, "None:"), "");
  EXPECT_EQ(parse_kernel_value(read_kernel_file("/proc/self/status"), "Pid:"), std::to_string(::getpid()));
}

TEST(KernelFile, Numbers) {
  EXPECT_EQ(parse_kernel_number("MemTotal: 5 kB\nMemAvailable:   123 kB\n", "MemAvailable:"), 123);
  EXPECT_EQ(parse_kernel_number("low 0\nhigh 5\noom 2\noom_kill 1\n", "oom_kill"), 1);
  EXPECT_EQ(parse_kernel_number("oom_kill_disable 0\nunder_oom 0\noom_kill 4\n", "oom_kill"), 4);
  EXPECT_EQ(parse_kernel_number("oom_kill", "oom_kill"), std::nullopt);
  EXPECT_EQ(parse_kernel_number("oom_kill 99999999999999999999", "oom_kill"), std::nullopt);
  EXPECT_EQ(parse_kernel_number(read_kernel_file("/proc/no/such"), "oom_kill"), std::nullopt);
  EXPECT_EQ(read_kernel_file("/proc/self/mem"), "") << "it can be opened, and reading is an error";
}

}  // namespace
}  // namespace paceline
