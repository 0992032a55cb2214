#include "paceline/core/posix/descriptor_limit.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace paceline {
namespace {

// In a process of its own, because a hard limit cannot be raised again.
int with_limit(rlim_t soft, rlim_t hard, int (*test)()) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    const rlimit limit{soft, hard};
    ::_exit(::setrlimit(RLIMIT_NOFILE, &limit) == 0 ? test() : 99);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(DescriptorLimit, RaisesTheSoftLimitWhenThatIsEnough) {
  EXPECT_EQ(with_limit(50, 500,
                       [] {
                         if (!reserve_descriptors(1).ok() || !reserve_descriptors(100).ok()) return 1;
                         for (int i = 0; i < 100; ++i) {
                           if (::dup(STDERR_FILENO) < 0) return 2;
                         }
                         return 0;
                       }),
            0);
}

TEST(DescriptorLimit, RaisesItWhenNothingMoreCanBeOpened) {
  EXPECT_EQ(with_limit(50, 500,
                       [] {
                         while (::dup(STDERR_FILENO) >= 0) {
                         }
                         return reserve_descriptors(10).ok() && ::dup(STDERR_FILENO) >= 0 ? 0 : 1;
                       }),
            0);
}

TEST(DescriptorLimit, IsRaisedAsFarAsItGoesForStrangers) {
  EXPECT_EQ(with_limit(50, 500,
                       [] {
                         raise_descriptor_limit();
                         rlimit limit{};
                         ::getrlimit(RLIMIT_NOFILE, &limit);
                         return limit.rlim_cur == 500 && limit.rlim_max == 500 ? 0 : 1;
                       }),
            0);
}

TEST(DescriptorLimit, SaysWhatToDoWhenTheHardLimitIsTooLow) {
  EXPECT_EQ(with_limit(50, 60,
                       [] {
                         const arrow::Status status = reserve_descriptors(100);
                         return status.IsIOError() &&
                                        status.message().find("raise it with `ulimit -n") != std::string::npos
                                    ? 0
                                    : 1;
                       }),
            0);
}

}  // namespace
}  // namespace paceline
