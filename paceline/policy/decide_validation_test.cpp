#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/policy/decide_fixture.h"

namespace paceline::policy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

RunOptions one_at_a_time() {
  return {.num_workers = 1, .max_validations = 1};
}

// Reports 1 to `count` have published checkpoints whose validation is asked for; their score is their number.
Play with_validations(int64_t count, const RunOptions& options = one_at_a_time()) {
  Play run = Play::training(options);
  for (int64_t report = 1; report <= count; ++report) {
    run.feed(CheckpointReady{report, ValidationTaskConfig{.config = {{"report", report}}, .timeout_s = 5}});
    run.feed(CheckpointPublished{{.report = report, .metrics = {{"score", report}}}});
  }
  return run;
}

std::vector<int64_t> running(const Play& run) {
  std::vector<int64_t> reports;
  for (const Validation& one : run.all().validations) {
    if (one.worker.value > 0) reports.push_back(one.report);
  }
  return reports;
}

void end(Play& run, int64_t report, const Json& metrics, const std::string& error = "") {
  for (const Validation& one : run.all().validations) {
    if (one.report == report) return run.feed(ValidationEnded{report, one.worker, metrics, error});
  }
  ADD_FAILURE() << "no validation of report " << report;
}

const PublishedCheckpoint& kept(const Play& run, int64_t report) {
  return *std::ranges::find(run.all().checkpoints, report, &PublishedCheckpoint::report);
}

TEST(Validation, StartsWhenItsCheckpointIsPublished) {
  Play run = Play::training(one_at_a_time());
  run.feed(CheckpointReady{1, ValidationTaskConfig{.config = {{"batches", 3}}}});
  EXPECT_THAT(run.wanted<StartValidation>(), IsEmpty());
  run.feed(CheckpointPublished{{.report = 1}});
  const auto started = run.wanted<StartValidation>();
  ASSERT_EQ(started.size(), 1u);
  EXPECT_EQ(started[0].report, 1);
  EXPECT_EQ(started[0].task.config.get<int64_t>("batches"), 3);
  EXPECT_GT(started[0].worker, run.worker(0)) << "an id of its own";
  EXPECT_EQ(kept(run, 1).status, CheckpointStatus::pending_validation);
}

TEST(Validation, AsManyAtOnceAsAllowedTheOldestFirst) {
  Play run = with_validations(4, {.num_workers = 1, .max_validations = 2});
  EXPECT_THAT(running(run), ElementsAre(1, 2));
  end(run, 2, {{"accuracy", 0.5}});
  EXPECT_THAT(running(run), ElementsAre(1, 3));
  EXPECT_EQ(kept(run, 2).status, CheckpointStatus::validated);
  EXPECT_EQ(kept(run, 2).metrics, Json({{"score", 2}, {"accuracy", 0.5}}));
}

TEST(Validation, EndsWithACheckpointWhoseNameALaterOneGets) {
  Play run = Play::training(one_at_a_time());
  for (int64_t report = 1; report <= 2; ++report) {
    run.feed(CheckpointReady{report, ValidationTaskConfig{}});
    run.feed(CheckpointPublished{{.report = report, .name = "latest"}});
  }
  ASSERT_EQ(run.wanted<EndValidation>().size(), 1u);
  EXPECT_THAT(running(run), ElementsAre(2));
}

TEST(Validation, ItsMetricsSortAnewAndRetentionIsAppliedAgain) {
  const CheckpointConfig config{.num_to_keep = 1, .checkpoint_score_attribute = "score"};
  Play run = with_validations(3, {.num_workers = 1, .max_validations = 3, .checkpoint_config = config});
  EXPECT_EQ(run.all().checkpoints.size(), 3u) << "what is pending stays";
  end(run, 1, {{"score", 10}});
  EXPECT_THAT(run.wanted<DeleteCheckpoint>(), IsEmpty());
  end(run, 2, {{"score", 5}});
  ASSERT_EQ(run.wanted<DeleteCheckpoint>().size(), 1u);
  EXPECT_EQ(run.wanted<DeleteCheckpoint>()[0].report, 2);
  end(run, 3, {{"score", 1}});
  EXPECT_EQ(run.all().checkpoints.size(), 2u) << "the best and the latest";
}

TEST(Validation, ItsMetricsMayHaveKeysThatAreNoTexts) {
  Play run = Play::training(one_at_a_time());
  run.feed(CheckpointReady{1, ValidationTaskConfig{}});
  run.feed(
      CheckpointPublished{{.report = 1, .metrics = Json::parse(R"({"0": 0.5, "loss": 1, "$keys": [0, "loss"]})")}});
  end(run, 1, Json::parse(R"({"accuracy": 0.5, "5": 2, "$keys": ["accuracy", 5]})"));
  EXPECT_EQ(kept(run, 1).metrics, Json::parse(R"({"0": 0.5, "loss": 1, "accuracy": 0.5, "5": 2,
                                                  "$keys": [0, "loss", "accuracy", 5]})"));
}

TEST(Validation, AFailureChangesNothingButTheStatus) {
  Play run = with_validations(2);
  end(run, 1, {}, "std::runtime_error: no data");
  EXPECT_EQ(kept(run, 1).status, CheckpointStatus::validation_failed);
  EXPECT_EQ(kept(run, 1).metrics, Json({{"score", 1}}));
  EXPECT_EQ(run.state(), State::running);
  EXPECT_THAT(running(run), ElementsAre(2));
  const auto notes = run.wanted<Note>();
  ASSERT_FALSE(notes.empty());
  EXPECT_THAT(notes[0].text, HasSubstr("no data"));
}

TEST(Validation, WhatTakesTooLongIsEndedAndItsEndIsLate) {
  Play run = with_validations(2);
  const WorkerId worker = run.all().validations[0].worker;
  run.feed(ValidationOverdue{1, worker, ""});
  ASSERT_EQ(run.wanted<EndValidation>().size(), 1u);
  EXPECT_EQ(kept(run, 1).status, CheckpointStatus::validation_timeout);
  EXPECT_THAT(running(run), ElementsAre(2));
  run.feed(ValidationEnded{1, worker, {{"score", 100}}, ""});
  EXPECT_EQ(kept(run, 1).status, CheckpointStatus::validation_timeout);
  EXPECT_EQ(kept(run, 1).metrics, Json({{"score", 1}}));
}

TEST(Validation, AWorkerFailureDoesNotTouchIt) {
  Play run = with_validations(1, {.num_workers = 1, .max_failures = 1, .max_validations = 1});
  run.exit(run.worker(0), {.signal = 9});
  EXPECT_EQ(run.state(), State::scheduling);
  run.join_all();
  EXPECT_THAT(running(run), ElementsAre(1));
  end(run, 1, {{"accuracy", 1}});
  EXPECT_EQ(run.state(), State::running);
}

TEST(Validation, TheEndOfTheRunWaitsForIt) {
  Play run = with_validations(2);
  run.feed(WorkerFinished{.worker = run.worker(0)});
  run.exit(run.worker(0));
  EXPECT_EQ(run.state(), State::shutting_down);
  end(run, 1, {});
  EXPECT_EQ(run.state(), State::shutting_down);
  EXPECT_THAT(running(run), ElementsAre(2));
  end(run, 2, {});
  EXPECT_EQ(run.state(), State::finished);
}

TEST(Validation, AStopWhileTheEndWaitsLeavesItToTheNextController) {
  Play run = with_validations(2);
  run.feed(WorkerFinished{.worker = run.worker(0)});
  run.exit(run.worker(0));
  run.feed(StopRequested{"interrupted"});
  EXPECT_EQ(run.state(), State::aborted);
  run.feed(RunOpened{.epoch = {2}, .options = one_at_a_time(), .checkpoints = {{.report = 1}, {.report = 2}}});
  run.bring_up_nodes();
  EXPECT_THAT(running(run), ElementsAre(1));
  EXPECT_EQ(kept(run, 1).status, CheckpointStatus::pending_validation);
  EXPECT_EQ(kept(run, 2).metrics, Json({{"score", 2}}));
}

TEST(Validation, TheEndOfTheRunDoesNotWaitForALostNode) {
  Play run = with_validations(2);
  run.feed(WorkerFinished{.worker = run.worker(0)});
  run.exit(run.worker(0));
  run.feed(NodeLost{.node = run.all().nodes[0].name, .error = "its channel has ended"});
  EXPECT_EQ(run.state(), State::errored);
  EXPECT_EQ(run.all().validations.size(), 2u) << "left to the next fit()";
}

TEST(Validation, AnotherControllerKnowsWhatWasValidated) {
  Play run = with_validations(2);
  end(run, 1, {{"accuracy", 0.5}});
  run.feed(RunOpened{.epoch = {2},
                     .options = {.num_workers = 1},
                     .checkpoints = {{.report = 1, .metrics = {{"score", 1}}}, {.report = 2}}});
  EXPECT_EQ(kept(run, 1).status, CheckpointStatus::validated);
  EXPECT_EQ(kept(run, 1).metrics, Json({{"score", 1}, {"accuracy", 0.5}}));
  EXPECT_EQ(kept(run, 2).status, CheckpointStatus::committed) << "nothing validates any more";
  EXPECT_THAT(run.all().validations, IsEmpty());
}

TEST(Validation, OfACheckpointThatCannotBePublishedThereIsNone) {
  Play run = Play::training(one_at_a_time());
  run.feed(CheckpointReady{1, ValidationTaskConfig{}});
  run.feed(PublishFailed{1, "no space left on device"});
  EXPECT_THAT(run.all().validations, IsEmpty());
}

}  // namespace
}  // namespace paceline::policy
