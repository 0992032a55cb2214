#include "paceline/storage/objects/claims_internal.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "paceline/storage/memory_storage.h"
#include "paceline/testing/faulty_storage.h"

namespace paceline::storage {
namespace {

// Two drivers contend for a run, one call to the storage at a time, in an order that is given: a driver goes on until
// its turn is over, by a number of calls, or it has ended. Behind the given turns each has ten calls, more than it
// makes without waiting for the other.
class Contest {
 public:
  using Outcome = arrow::Result<BootClock::time_point>;

  Contest(const std::vector<std::string>& names, std::vector<int> turns) : turns_(std::move(turns)) {
    std::vector<std::thread> drivers;
    for (size_t driver = 0; driver < names.size(); ++driver) {
      drivers.emplace_back([this, driver, name = names[driver]] {
        testing::GuardedStorage storage(run, [this, driver](const auto&, const auto&, int64_t) {
          await_turn(driver);
          return arrow::Status::OK();
        });
        LeaseClaim claim{.pid = static_cast<int64_t>(driver) + 1};
        const LeaseOptions options{.look = Duration{}};
        Outcome outcome = contend(storage, name, claim, {}, options);
        const std::lock_guard lock(mutex_);
        outcomes[driver] = std::move(outcome);
        end_turn();
      });
    }
    for (std::thread& driver : drivers) driver.join();
  }

  const std::shared_ptr<MemoryStorage> run = std::make_shared<MemoryStorage>();
  std::vector<Outcome> outcomes = std::vector<Outcome>(2, Outcome(arrow::Status::UnknownError("not ended")));

 private:
  static constexpr int kCallsWithoutWaiting = 10;

  void await_turn(size_t driver) {
    std::unique_lock lock(mutex_);
    if (driver == turn_ && left_ == 0) end_turn();
    changed_.wait(lock, [&] { return driver == turn_; });
    --left_;
  }

  // To the other one, if it has not ended.
  void end_turn() {
    const size_t other = 1 - turn_;
    if (outcomes[other].status().IsUnknownError()) turn_ = other;
    left_ = next_turn_ < turns_.size() ? turns_[next_turn_++] : kCallsWithoutWaiting;
    changed_.notify_all();
  }

  const std::vector<int> turns_;
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t turn_ = 0;
  size_t next_turn_ = 1;
  int left_ = turns_.front();
};

// Whatever the order of their calls, as far as three changes of the turn make one.
TEST(Claims, OfTwoDriversThatContendAtOnceOneHasTheRun) {
  for (const std::vector<std::string>& names : {std::vector<std::string>{".lease/000001_a", ".lease/000001_b"},
                                                std::vector<std::string>{".lease/000001_b", ".lease/000001_a"}}) {
    for (int turns = 0; turns < 8 * 8 * 8; ++turns) {
      const Contest contest(names, {1 + turns % 8, 1 + turns / 8 % 8, 1 + turns / 64});
      const bool first_has_it = contest.outcomes[0].ok();
      ASSERT_NE(first_has_it, contest.outcomes[1].ok()) << "turns " << turns;
      ASSERT_TRUE(contest.outcomes[first_has_it ? 1 : 0].status().IsAlreadyExists());
      const auto left = contest.run->list(".lease").ValueOrDie();
      ASSERT_EQ(left.size(), 1u);
      ASSERT_EQ(left.front().name, names[first_has_it ? 0 : 1]);
      ASSERT_FALSE(decode_claim(read_whole(*contest.run, left.front().name).ValueOrDie()).asks);
    }
  }
}

// Each writes before the other looks.
TEST(Claims, OfTwoThatSeeEachOtherTheLowerNameHasTheRun) {
  for (const bool first_is_lower : {true, false}) {
    const std::string lower = ".lease/000001_a", higher = ".lease/000001_b";
    const Contest contest(first_is_lower ? std::vector{lower, higher} : std::vector{higher, lower}, {1, 1});
    EXPECT_EQ(contest.outcomes[0].ok(), first_is_lower);
  }
}

TEST(Claims, WhoAsksAndIsSilentIsNotWaitedForForEver) {
  MemoryStorage run;
  ASSERT_TRUE(write_claim(run, ".lease/000001_b", {.pid = 7, .host = "other", .asks = true}).ok());
  LeaseClaim claim;
  const LeaseOptions options{.takeover = std::chrono::milliseconds(20), .look = std::chrono::milliseconds(1)};
  const arrow::Status given_way = contend(run, ".lease/000001_a", claim, {}, options).status();
  EXPECT_TRUE(given_way.IsAlreadyExists());
  EXPECT_EQ(run.list(".lease")->size(), 1u);
}

}  // namespace
}  // namespace paceline::storage
