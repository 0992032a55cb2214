#include "paceline/core/posix/process_stat.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <thread>

namespace paceline {
namespace {

TEST(ProcessStat, NamesMayHoldAnything) {
  const auto stat = parse_process_stat("7 (a) S 1 (b\n) Z 42 7 7 0 -1 4194564 0 0 0 0 3 4 0 0 20 0 1 0 99 5000 12 0");
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->state, 'Z');
  EXPECT_EQ(stat->parent, 42);
  EXPECT_EQ(stat->flags, 4194564);
  EXPECT_EQ(stat->cpu_ticks, 7);
  EXPECT_EQ(stat->start_ticks, 99);
  EXPECT_EQ(stat->resident_pages, 12);
  EXPECT_EQ(stat->arguments_start, 0) << "not there";
}

TEST(ProcessStat, WhatIsNoStatIsNone) {
  EXPECT_FALSE(parse_process_stat(""));
  EXPECT_FALSE(parse_process_stat("7 name S 1"));
  EXPECT_FALSE(parse_process_stat("7 (name)"));
  EXPECT_FALSE(read_process_stat("/proc/0"));
}

TEST(ProcessStat, OfThisThread) {
  std::thread([] {
    ::prctl(PR_SET_NAME, ") R 1 (");
    const auto stat = read_process_stat("/proc/self/task/" + std::to_string(::gettid()));
    ASSERT_TRUE(stat);
    EXPECT_EQ(stat->state, 'R');
    EXPECT_EQ(stat->parent, ::getppid());
    EXPECT_GT(stat->resident_pages, 0);
    EXPECT_GT(stat->arguments_end, stat->arguments_start);
  }).join();
}

}  // namespace
}  // namespace paceline
