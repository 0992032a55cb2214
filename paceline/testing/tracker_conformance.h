// What every Tracker must do: one suite, run against each implementation; and MemoryTracker, the reference.
//
//     struct CsvPlace {
//       std::unique_ptr<track::Tracker> make(const Json& memory = nullptr);  // each time for the same run
//       std::vector<KeptRow> kept();        // what is there by now, read by somebody else
//     };
//     INSTANTIATE_TYPED_TEST_SUITE_P(Csv, TrackerConformance, CsvPlace);
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "paceline/track/tracker/tracker.h"

namespace paceline::testing {

/// A report as a tracker keeps it: its numbers by name.
struct KeptRow {
  int64_t step = 0;
  std::map<std::string, double> numbers;
};

inline track::TrackedRow tracked_row(int64_t step, const Json& metrics, int64_t attempt = 1) {
  return {.step = step,
          .report = step,
          .attempt = attempt,
          .time = 1000.0 + static_cast<double>(step),
          .checkpoint = "",
          .metrics = track::flat_metrics(metrics)};
}

/// Keeps what it is told. `problem` is what every call returns while it is not OK.
class MemoryTracker final : public track::Tracker {
 public:
  struct Kept {
    std::vector<KeptRow> rows;
    std::vector<track::TrackedAttempt> attempts;
    std::vector<track::TrackedEnd> ends;
    arrow::Status problem;
  };
  explicit MemoryTracker(std::shared_ptr<Kept> kept) : kept_(std::move(kept)) {}

  arrow::Status begin_attempt(const track::TrackedAttempt& attempt) override {
    if (kept_->problem.ok()) kept_->attempts.push_back(attempt);
    return kept_->problem;
  }
  arrow::Status write(std::span<const track::TrackedRow> rows) override {
    if (!kept_->problem.ok()) return kept_->problem;
    for (const track::TrackedRow& row : rows) {
      KeptRow kept{.step = row.step};
      for (const auto& [name, value] : row.metrics) {
        if (const auto number = track::number_of(value)) kept.numbers[name] = *number;
      }
      kept_->rows.push_back(std::move(kept));
    }
    return kept_->problem;
  }
  arrow::Status finish(const track::TrackedEnd& end) override {
    if (kept_->problem.ok()) kept_->ends.push_back(end);
    return kept_->problem;
  }

 private:
  std::shared_ptr<Kept> kept_;
};

template <class Place>
class TrackerConformance : public ::testing::Test {
 protected:
  static void expect_rows(const std::vector<KeptRow>& kept, const std::vector<int64_t>& steps, const char* name) {
    ASSERT_EQ(kept.size(), steps.size());
    for (size_t i = 0; i < steps.size(); ++i) {
      EXPECT_EQ(kept[i].step, steps[i]);
      EXPECT_EQ(kept[i].numbers.at(name), static_cast<double>(steps[i]) / 4);
    }
  }
  static std::vector<track::TrackedRow> rows(int64_t first, int64_t last) {
    std::vector<track::TrackedRow> rows;
    for (int64_t step = first; step <= last; ++step) {
      rows.push_back(tracked_row(step, {{"loss", static_cast<double>(step) / 4}}));
    }
    return rows;
  }
  Place place_;
};
TYPED_TEST_SUITE_P(TrackerConformance);

TYPED_TEST_P(TrackerConformance, KeepsRowsInOrder) {
  const auto tracker = this->place_.make();
  ASSERT_TRUE(tracker->begin_attempt({.time = 1000}).ok());
  ASSERT_TRUE(tracker->write(this->rows(1, 3)).ok());
  this->expect_rows(this->place_.kept(), {1, 2, 3}, "loss");
  ASSERT_TRUE(tracker->write(this->rows(4, 300)).ok());
  ASSERT_TRUE(tracker->finish({.state = FinalState::finished, .time = 2000}).ok());
  std::vector<int64_t> steps;
  for (int64_t step = 1; step <= 300; ++step) steps.push_back(step);
  this->expect_rows(this->place_.kept(), steps, "loss");
}

TYPED_TEST_P(TrackerConformance, GoesOnWhereAnEarlierDriverStopped) {
  Json memory;
  {
    const auto tracker = this->place_.make();
    ASSERT_TRUE(tracker->begin_attempt({.time = 1000}).ok());
    ASSERT_TRUE(tracker->write(this->rows(1, 2)).ok());
    memory = tracker->memory();
  }
  const auto tracker = this->place_.make(memory);
  ASSERT_TRUE(tracker->write(this->rows(3, 3)).ok()) << "what the earlier driver has left";
  ASSERT_TRUE(tracker->begin_attempt({.attempt = 2, .resume_step = 3, .time = 2000}).ok());
  ASSERT_TRUE(tracker->write(this->rows(4, 4)).ok());
  ASSERT_TRUE(tracker->finish({.state = FinalState::finished, .time = 3000}).ok());
  this->expect_rows(this->place_.kept(), {1, 2, 3, 4}, "loss");
}

TYPED_TEST_P(TrackerConformance, MetricsMayComeLaterAndStayAway) {
  const auto tracker = this->place_.make();
  ASSERT_TRUE(tracker->begin_attempt({.time = 1000}).ok());
  ASSERT_TRUE(tracker->write(std::vector{tracked_row(1, {{"loss", 0.5}})}).ok());
  ASSERT_TRUE(tracker->write(std::vector{tracked_row(2, {{"eval", {{"accuracy", 0.75}}}}), tracked_row(3, {})}).ok());
  ASSERT_TRUE(tracker->write(std::vector{tracked_row(4, {{"loss", 0.25}, {"alpha", true}})}).ok());
  std::map<int64_t, std::map<std::string, double>> kept;
  for (const KeptRow& row : this->place_.kept()) {
    if (!row.numbers.empty()) kept[row.step] = row.numbers;
  }
  const std::map<int64_t, std::map<std::string, double>> expected = {
      {1, {{"loss", 0.5}}}, {2, {{"eval/accuracy", 0.75}}}, {4, {{"alpha", 1}, {"loss", 0.25}}}};
  EXPECT_EQ(kept, expected);
}

// Whatever a train loop reports, its good numbers arrive.
TYPED_TEST_P(TrackerConformance, OddMetricsDoNoHarm) {
  const auto tracker = this->place_.make();
  ASSERT_TRUE(tracker->begin_attempt({.time = 1000}).ok());
  const Json odd = {{"loss", 0.25},
                    {"nan", std::numeric_limits<double>::quiet_NaN()},
                    {"infinite", -std::numeric_limits<double>::infinity()},
                    {"text", "a, \"b\"\nc"},
                    {"list", {1, 2, {{"x", 3}}}},
                    {"none", nullptr},
                    {"a,\"b\"", 2},
                    {"step", 7},
                    {"größe", 1.5},
                    {std::string(300, 'n'), 1}};
  ASSERT_TRUE(tracker->write(std::vector{tracked_row(1, odd), tracked_row(2, {{"loss", 0.5}})}).ok());
  ASSERT_TRUE(tracker->finish({.state = FinalState::errored, .message = "line one\nline two", .time = 2000}).ok());
  const auto kept = this->place_.kept();
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept[0].numbers.at("loss"), 0.25);
  EXPECT_EQ(kept[1].step, 2);
  EXPECT_EQ(kept[1].numbers.at("loss"), 0.5);
}

TYPED_TEST_P(TrackerConformance, ARunMayEndWithoutAReport) {
  const auto tracker = this->place_.make();
  EXPECT_TRUE(tracker->write({}).ok());
  EXPECT_TRUE(tracker->finish({.state = FinalState::aborted, .message = "stopped", .time = 1000}).ok());
  EXPECT_TRUE(this->place_.kept().empty());
}

REGISTER_TYPED_TEST_SUITE_P(TrackerConformance, KeepsRowsInOrder, GoesOnWhereAnEarlierDriverStopped,
                            MetricsMayComeLaterAndStayAway, OddMetricsDoNoHarm, ARunMayEndWithoutAReport);

}  // namespace paceline::testing
