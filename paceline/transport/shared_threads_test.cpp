#include "paceline/transport/shared_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <latch>

namespace paceline::transport {
namespace {

TEST(SharedThreads, RunsEachTaskThatIsSubmitted) {
  std::atomic<int> next = 0;
  SharedThreads threads;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(threads.submit([&, i] {
      EXPECT_EQ(next++, i);
      next.notify_all();
    }));
    next.wait(i);
  }
}

TEST(SharedThreads, TasksThatWaitDoNotHoldUpOthers) {
  constexpr int kWaiting = 20;
  // Each waits for all others, so all must have a thread at the same time.
  std::latch all(kWaiting);
  std::latch done(kWaiting);
  SharedThreads threads;  // destroyed first, when no task uses the latches any more
  for (int i = 0; i < kWaiting; ++i) {
    threads.submit([&] {
      all.arrive_and_wait();
      done.count_down();
    });
  }
  done.wait();
}

TEST(SharedThreads, StopRunsWhatWasSubmittedAndRefusesMore) {
  std::atomic<int> ran = 0;
  SharedThreads threads;
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
