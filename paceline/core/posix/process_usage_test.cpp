#include "paceline/core/posix/process_usage.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ctime>
#include <vector>

namespace paceline {
namespace {

TEST(ProcessUsage, TellsOfThisProcess) {
  const std::vector<char> memory(64 << 20, 'x');
  const auto usage = process_usage(::getpid()).ValueOrDie();
  EXPECT_GT(usage.resident_bytes, static_cast<int64_t>(memory.size()));
  EXPECT_GE(usage.cpu_s, 0.0);
  EXPECT_LE(usage.started, static_cast<double>(std::time(nullptr)) + 1);
  EXPECT_GT(usage.started, static_cast<double>(std::time(nullptr)) - 86'400);
}

TEST(ProcessUsage, AProcessThatHasEndedUsesNothing) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  siginfo_t end{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &end, WEXITED | WNOWAIT), 0);
  EXPECT_TRUE(process_usage(child).status().IsIOError()) << "it waits for its parent";
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(process_usage(child).status().IsIOError());
}

}  // namespace
}  // namespace paceline
