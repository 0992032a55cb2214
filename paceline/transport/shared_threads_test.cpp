#include "paceline/transport/shared_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <latch>

namespace paceline::transport {
namespace {

TEST(SharedThreads, RunsTasksInTheOrderOfTheCalls) {
  SharedThreads threads;
  std::promise<void> done;
  int next = 0;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(threads.submit([&, i] {
      // One thread is enough, as nobody waits.
      EXPECT_EQ(next++, i);
      if (i == 99) done.set_value();
    }));
    std::promise<void> taken;
    threads.submit([&] { taken.set_value(); });
    taken.get_future().wait();
  }
  done.get_future().wait();
}

TEST(SharedThreads, TasksThatWaitDoNotHoldUpOthers) {
  constexpr int kWaiting = 20;
  SharedThreads threads;
  // Each waits for all others, so all must have a thread at the same time.
  std::latch all(kWaiting);
  std::latch done(kWaiting);
  for (int i = 0; i < kWaiting; ++i) {
    threads.submit([&] {
      all.arrive_and_wait();
      done.count_down();
    });
  }
  done.wait();
}

TEST(SharedThreads, StopRunsWhatWasSubmittedAndRefusesMore) {
  SharedThreads threads;
  std::atomic<int> ran = 0;
  for (int i = 0; i < 50; ++i) threads.submit([&] { ++ran; });
  threads.stop();
  EXPECT_EQ(ran, 50);
  EXPECT_FALSE(threads.submit([&] { ++ran; }));
  threads.stop();
  EXPECT_EQ(ran, 50);
}

class Counter final : public Timed {
 public:
  explicit Counter(Duration period, int times) : period_(period), left_(times) {}
  std::optional<Time> look(Time now) override {
    last_ = now;
    if (--left_ == 0) done_.set_value();
    if (left_ <= 0) return std::nullopt;
    return now + period_;
  }
  void wait() { done_.get_future().wait(); }
  Time last() const { return last_; }

 private:
  const Duration period_;
  int left_;
  Time last_;
  std::promise<void> done_;
};

TEST(SharedThreads, LooksWhenTheClockSaysSo) {
  const auto clock = std::make_shared<ManualClock>();
  SharedThreads threads(clock);
  const auto never = std::make_shared<Counter>(std::chrono::seconds(1), 1);
  const auto once = std::make_shared<Counter>(std::chrono::seconds(1), 1);
  threads.watch(never, clock->now() + std::chrono::hours(2));
  threads.watch(once, clock->now() + std::chrono::hours(1));
  clock->advance(std::chrono::minutes(61));
  threads.wake();
  once->wait();
  EXPECT_EQ(once->last(), clock->now());
  threads.stop();
  EXPECT_EQ(never->last(), Time{}) << "its hour has not come";
}

TEST(SharedThreads, LooksAgainAsLongAsTheObjectWants) {
  SharedThreads threads;
  const auto three = std::make_shared<Counter>(std::chrono::milliseconds(1), 3);
  threads.watch(std::make_shared<Counter>(std::chrono::milliseconds(1), 1), threads.now());  // gone before its time
  threads.watch(three, threads.now());
  three->wait();
}

}  // namespace
}  // namespace paceline::transport
