#include "paceline/track/tracker/tracker_feed.h"

#include <gmock/gmock.h>

#include <functional>
#include <future>

#include "paceline/testing/temporary_folder.h"
#include "paceline/testing/tracker_conformance.h"
#include "paceline/track/metrics_history.h"

namespace paceline::track {
namespace {

using namespace std::chrono_literals;
using SteadyClock = std::chrono::steady_clock;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A tracker whose calls go to functions of the test, on the feed's thread.
class Told final : public Tracker {
 public:
  struct Hooks {
    std::function<arrow::Status(std::span<const TrackedRow>)> write = [](auto) { return arrow::Status::OK(); };
    std::function<arrow::Status(const TrackedAttempt&)> begin = [](auto&) { return arrow::Status::OK(); };
    std::function<arrow::Status(const TrackedEnd&)> finish = [](auto&) { return arrow::Status::OK(); };
    std::function<Json()> memory = [] { return Json(); };
  };
  explicit Told(Hooks hooks) : hooks_(std::move(hooks)) {}
  arrow::Status begin_attempt(const TrackedAttempt& attempt) override { return hooks_.begin(attempt); }
  arrow::Status write(std::span<const TrackedRow> rows) override { return hooks_.write(rows); }
  arrow::Status finish(const TrackedEnd& end) override { return hooks_.finish(end); }
  Json memory() const override { return hooks_.memory(); }

 private:
  const Hooks hooks_;
};

class TrackerFeedTest : public ::testing::Test {
 protected:
  TrackerFeedTest()
      : history_(HistoryWriter::open(run_.path()).ValueOrDie()),
        log_(run_ / "log", [this](LogLevel level, const std::string& line) { note(level, line); }, LogLevel::info) {}

  std::unique_ptr<TrackerFeed> feed(TrackerConfig config = {}) {
    return std::make_unique<TrackerFeed>("told", std::move(config), TrackedRun{"sample", run_.path(), {}},
                                         history_.flushed_bytes(), log_, [this](const TrackerOptions& options) {
                                           made_with_ = options.memory;
                                           abandoned_ = options.abandoned;
                                           return std::make_unique<Told>(hooks_);
                                         });
  }
  void report(int64_t number, const Json& metrics = {{"loss", 1}}, int64_t ranks = 2) {
    for (int64_t rank = 0; rank < ranks; ++rank) {
      ASSERT_TRUE(
          history_.append({.report = number, .attempt = 1, .rank = rank, .time = 1.0, .metrics = metrics}).ok());
    }
    ASSERT_TRUE(history_.flush().ok());
  }
  void note(LogLevel level, const std::string& line) {
    const std::lock_guard lock(mutex_);
    (level == LogLevel::warning ? warnings_ : lines_).push_back(line);
  }
  std::vector<std::string> warnings() {
    const std::lock_guard lock(mutex_);
    return warnings_;
  }
  static SteadyClock::time_point soon() { return SteadyClock::now() + 60s; }

  // Keeps the steps that are written.
  void keep_steps() {
    hooks_.write = [this](std::span<const TrackedRow> rows) {
      for (const TrackedRow& row : rows) steps_.push_back(row.step);
      return arrow::Status::OK();
    };
  }

  testing::TemporaryFolder run_;
  HistoryWriter history_;
  std::mutex mutex_;
  std::vector<std::string> warnings_;
  std::vector<std::string> lines_;
  Log log_;
  Told::Hooks hooks_;
  Json made_with_;
  std::stop_token abandoned_;
  std::vector<int64_t> steps_;
};

TEST_F(TrackerFeedTest, HandsOverAttemptsRowsAndTheEndInOrder) {
  std::vector<std::string> told;
  hooks_.begin = [&](const TrackedAttempt& attempt) {
    told.push_back("attempt " + std::to_string(attempt.attempt) + " from " + std::to_string(attempt.resume_step));
    return arrow::Status::OK();
  };
  hooks_.write = [&](std::span<const TrackedRow> rows) {
    for (const TrackedRow& row : rows) told.push_back("step " + std::to_string(row.step));
    return arrow::Status::OK();
  };
  hooks_.finish = [&](const TrackedEnd& end) {
    told.push_back(to_string(end.state));
    return arrow::Status::OK();
  };
  const auto feed = this->feed({.step_metric = "samples"});
  feed->begin_attempt({.attempt = {.attempt = 1}}, history_.bytes());
  report(1, {{"samples", 100}});
  report(2, {{"samples", 200}});
  feed->advance(history_.flushed_bytes());
  feed->begin_attempt({{.attempt = 2, .resume_step = 1}, {{"samples", 100}}}, history_.bytes());
  report(3, {{"samples", 200}});
  feed->finish({.state = FinalState::finished}, history_.flushed_bytes());
  EXPECT_TRUE(feed->wait(soon()));
  EXPECT_THAT(told,
              ElementsAre("attempt 1 from 0", "step 100", "step 200", "attempt 2 from 100", "step 200", "finished"));
}

// Rank 0's own line, or the group's where that is what users are shown; a checkpoint in a row of its own.
TEST_F(TrackerFeedTest, TakesWhatUsersAreShownInOrder) {
  std::vector<std::string> told;
  hooks_.write = [&](std::span<const TrackedRow> rows) {
    for (const TrackedRow& row : rows) {
      const std::string loss = row.metrics.empty() ? "none" : row.metrics[0].second.dump();
      told.push_back(std::to_string(row.step) + ": " + loss + (row.checkpoint.empty() ? "" : " " + row.checkpoint));
    }
    return arrow::Status::OK();
  };
  const auto feed = this->feed({.step_metric = "step"});
  const auto append = [this](const HistoryRow& row) { ASSERT_TRUE(history_.append(row).ok()); };
  append({.report = 1, .rank = 0, .metrics = {{"loss", 1}, {"step", 10}}});
  append({.report = 2, .rank = 0, .later = true, .metrics = {{"loss", 2}, {"step", 20}}});
  append({.report = 2, .rank = 1, .metrics = {{"loss", 4}, {"step", 20}}});
  append({.report = 2, .rank = kWholeGroup, .reduced = {{"loss", 3}, {"step", 20}}});
  append({.report = 1, .rank = kWholeGroup, .checkpoint = "best", .metrics = {{"loss", 1}, {"step", 10}}});
  ASSERT_TRUE(history_.flush().ok());
  feed->finish({.state = FinalState::finished}, history_.flushed_bytes());
  EXPECT_TRUE(feed->wait(soon()));
  EXPECT_THAT(told, ElementsAre("10: 1", "20: 3", "10: none best"));
}

TEST_F(TrackerFeedTest, TheNextDriverGoesOnWhereThisOneStopped) {
  keep_steps();
  hooks_.memory = [] { return Json{{"run", 7}}; };
  {
    const auto first = feed();
    report(1);
    first->finish({.state = FinalState::aborted}, history_.flushed_bytes());
    ASSERT_TRUE(first->wait(soon()));
    EXPECT_EQ(made_with_, nullptr);
  }
  report(2);  // of a driver without this tracker
  const auto second = feed();
  report(3);
  second->finish({.state = FinalState::finished}, history_.flushed_bytes());
  ASSERT_TRUE(second->wait(soon()));
  EXPECT_EQ(made_with_["run"], 7);
  EXPECT_THAT(steps_, ElementsAre(1, 2, 3));
}

TEST_F(TrackerFeedTest, APassingErrorIsTriedAgainWithOneWarning) {
  int calls = 0;
  hooks_.write = [&](std::span<const TrackedRow> rows) {
    if (++calls <= 2) return arrow::Status::IOError("the server is away");
    steps_.push_back(rows.front().step);
    return arrow::Status::OK();
  };
  const auto feed = this->feed();
  report(1);
  feed->finish({.state = FinalState::finished}, history_.flushed_bytes());
  EXPECT_TRUE(feed->wait(soon()));
  EXPECT_THAT(steps_, ElementsAre(1));
  EXPECT_THAT(warnings(), ElementsAre(HasSubstr("tracker told fails, training goes on and it is tried again: the "
                                                "server is away")));
  EXPECT_THAT(lines_, ElementsAre("tracker told works again"));
}

TEST_F(TrackerFeedTest, WhatAServerThatIsAwayHasNotTakenIsHandedOverNextTime) {
  hooks_.write = [&](auto) { return arrow::Status::IOError("the server is away"); };
  {
    const auto first = feed();
    report(1);
    first->finish({.state = FinalState::finished}, history_.flushed_bytes());
    EXPECT_TRUE(first->wait(soon()));
  }
  EXPECT_THAT(warnings().back(), HasSubstr("is handed over when the run is continued"));
  keep_steps();
  const auto second = feed();
  second->finish({.state = FinalState::finished}, history_.flushed_bytes());
  EXPECT_TRUE(second->wait(soon()));
  EXPECT_THAT(steps_, ElementsAre(1));
}

TEST_F(TrackerFeedTest, AnErrorThatStaysEndsTheTracker) {
  int calls = 0;
  hooks_.write = [&](auto) {
    ++calls;
    return arrow::Status::Invalid("no such project");
  };
  const auto feed = this->feed();
  report(1);
  feed->finish({.state = FinalState::finished}, history_.flushed_bytes());
  EXPECT_TRUE(feed->wait(soon()));
  EXPECT_EQ(calls, 1);
  EXPECT_THAT(warnings(), ElementsAre(HasSubstr("tracker told has not taken all: no such project")));
}

// A call that waits for a server returns when it is abandoned: the run's end waits no longer than it was told.
TEST_F(TrackerFeedTest, TheEndWaitsForASlowCallOnlySoLong) {
  hooks_.write = [&](auto) {
    std::mutex mutex;
    std::condition_variable_any changed;
    std::unique_lock lock(mutex);
    changed.wait(lock, abandoned_, [] { return false; });
    return arrow::Status::IOError("abandoned");
  };
  const auto feed = this->feed();
  report(1);
  feed->finish({.state = FinalState::finished}, history_.flushed_bytes());
  EXPECT_TRUE(feed->wait(SteadyClock::now() + 50ms));
  EXPECT_THAT(warnings().back(), HasSubstr("is handed over when the run is continued"));
}

TEST_F(TrackerFeedTest, ACallThatNeverReturnsIsLeftToItself) {
  const auto hang = std::make_shared<std::promise<void>>();
  Told::Hooks hooks;
  hooks.write = [released = hang->get_future().share()](auto) {
    released.wait();
    return arrow::Status::OK();
  };
  TrackerFeed feed("told", {}, {"sample", run_.path(), {}}, 0, log_,
                   [hooks](const TrackerOptions&) { return std::make_unique<Told>(hooks); });
  report(1);
  feed.finish({.state = FinalState::finished}, history_.flushed_bytes());
  EXPECT_FALSE(feed.wait(SteadyClock::now() + 50ms));
  EXPECT_THAT(warnings(), ElementsAre(HasSubstr("tracker told hangs")));
  hang->set_value();
}

TEST_F(TrackerFeedTest, ADamagedNoteOrHistoryDoesNotStopIt) {
  keep_steps();
  testing::write_file(run_ / "trackers/told.json", "no json");
  report(1);
  testing::write_file(run_ / "metrics.jsonl", "damaged\n{\"report\": 2}\n");
  history_ = HistoryWriter::open(run_.path()).ValueOrDie();
  const auto feed = this->feed();
  report(3);
  feed->finish({.state = FinalState::finished}, history_.flushed_bytes());
  EXPECT_TRUE(feed->wait(soon()));
  EXPECT_THAT(steps_, ElementsAre(2, 3));
  EXPECT_THAT(warnings(), IsEmpty());
}

TEST_F(TrackerFeedTest, FollowsALongHistoryInPortions) {
  size_t most = 0;
  hooks_.write = [&](std::span<const TrackedRow> rows) {
    most = std::max(most, rows.size());
    for (const TrackedRow& row : rows) steps_.push_back(row.step);
    return arrow::Status::OK();
  };
  constexpr int64_t kReports = 20'000;
  for (int64_t number = 1; number <= kReports; ++number) {
    ASSERT_TRUE(history_.append({.report = number, .rank = 0, .metrics = {{"loss", number}}}).ok());
  }
  ASSERT_TRUE(history_.flush().ok());
  const auto feed = this->feed();
  feed->finish({.state = FinalState::finished}, history_.flushed_bytes());
  ASSERT_TRUE(feed->wait(soon()));
  ASSERT_EQ(steps_.size(), kReports);
  for (size_t i = 0; i < steps_.size(); ++i) ASSERT_EQ(steps_[i], static_cast<int64_t>(i) + 1);
  EXPECT_LT(most, 5000u) << "memory is bounded";
}

}  // namespace
}  // namespace paceline::track
