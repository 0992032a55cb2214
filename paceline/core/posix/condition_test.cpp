#include "paceline/core/posix/condition.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace paceline {
namespace {

// A call that is lost, or comes between a look and the sleep, would leave a thread waiting for ever.
TEST(ConditionTest, EachThreadSeesEachChange) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 2000;
  Condition changed;
  std::mutex mutex;
  int round = 0;
  int arrived = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int mine = 0; mine < kRounds; ++mine) {
        std::unique_lock lock(mutex);
        if (++arrived == kThreads) {
          arrived = 0;
          ++round;
          lock.unlock();
          changed.notify_all();
          changed.notify_all();  // also while those who are woken have not run
        } else {
          changed.wait(lock, [&] { return round > mine; });
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(round, kRounds);
}

}  // namespace
}  // namespace paceline
