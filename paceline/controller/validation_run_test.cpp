// Validations with real processes, and workers that ask for all checkpoints.
#include <gmock/gmock.h>

#include "paceline/controller/run_fixture.h"

namespace paceline::controller {

using namespace policy;
namespace {

using ::testing::ElementsAre;

class ValidationRunTest : public RunTest {
 protected:
  ValidationRunTest() { request_.validation_fn = "validate"; }

  RunState state() const { return run::replay(folder_.path()).ValueOrDie().value(); }
  std::vector<CheckpointStatus> statuses() const {
    std::vector<CheckpointStatus> found;
    for (const PublishedCheckpoint& kept : state().checkpoints) found.push_back(kept.status);
    return found;
  }
};

TEST_F(ValidationRunTest, MetricsJoinThoseOfTheReport) {
  request_.validation_task = {.config = {{"metrics", {{"accuracy", 0.5}}}}};
  request_.max_validations = 2;
  const auto outcome = run({{"checkpoint_every", 1}, {"validate", Json::object()}});
  EXPECT_EQ(outcome.state, FinalState::finished) << outcome.error;
  EXPECT_THAT(statuses(), ::testing::Each(CheckpointStatus::validated));
  const Json metrics = state().checkpoints.at(2).metrics;
  EXPECT_EQ(metrics["accuracy"], 0.5);
  EXPECT_EQ(metrics["step"], 3);
  EXPECT_EQ(metrics["files"].size(), 3u) << "those of two ranks, and the manifest";
  EXPECT_TRUE(std::filesystem::exists(folder_ / "logs/validation_3.log"));
}

TEST_F(ValidationRunTest, WhateverBecomesOfThemTrainingIsNotAffected) {
  const std::map<std::string, CheckpointStatus> cases = {{"throw", CheckpointStatus::validation_failed},
                                                         {"exit", CheckpointStatus::validation_failed},
                                                         {"hang", CheckpointStatus::validation_timeout}};
  for (const auto& [what, status] : cases) {
    SCOPED_TRACE(what);
    const Json task = {{"config", {{"do", what}}}, {"timeout_s", what == "hang" ? Json(0.5) : Json()}};
    const auto outcome = run({{"reports", 1}, {"checkpoint_every", 1}, {"validate", task}});
    EXPECT_EQ(outcome.state, FinalState::finished) << outcome.error;
    EXPECT_EQ(state().checkpoints.back().status, status);
  }
}

// The first process hangs; the second finds the file that tells it not to.
TEST_F(ValidationRunTest, AnInterruptedOneIsQueuedAgain) {
  request_.validation_task = {.config = {{"do", "hang"}, {"unless", folder_ / "go_on"}}};
  callback_ = std::make_shared<TestCallback>();
  callback_->report = [this](const auto&, const auto&, const auto*) { stop_.stop(); };
  EXPECT_EQ(run({{"reports", 1}, {"checkpoint_every", 1}, {"validate", Json::object()}}).state, FinalState::aborted);
  EXPECT_THAT(statuses(), ElementsAre(CheckpointStatus::pending_validation));
  std::ofstream(folder_ / "go_on") << "now";
  callback_->report = {};
  EXPECT_EQ(run({{"reports", 0}}).state, FinalState::finished);
  EXPECT_THAT(statuses(), ElementsAre(CheckpointStatus::validated));
}

TEST_F(ValidationRunTest, WorkersAreToldOfAllCheckpoints) {
  request_.validation_task = {.config = {{"metrics", {{"accuracy", 0.5}}}}};
  const Json ask = {{"validated", true}};
  const auto outcome = run({{"checkpoint_every", 2}, {"validate", Json::object()}, {"ask", ask}, {"reports", 5}});
  EXPECT_EQ(outcome.state, FinalState::finished) << outcome.error;
  ASSERT_EQ(outcome.return_value.size(), 2u);
  EXPECT_EQ(outcome.return_value[0]["report"], 2);
  EXPECT_EQ(outcome.return_value[1]["status"], "validated");
  EXPECT_EQ(outcome.return_value[1]["metrics"]["accuracy"], 0.5);
}

TEST_F(ValidationRunTest, WhoWaitsForAValidationDoesNotHang) {
  request_.run_config.debug_config = {.hang_action = "fail", .hang_floor_s = 2, .hang_factor = 1, .hang_start_s = 2};
  request_.validation_task = {.config = {{"do", "hang"}}, .timeout_s = 5};
  const Json ask = {{"validated", true}};
  const auto outcome = run({{"checkpoint_every", 4}, {"validate", Json::object()}, {"ask", ask}, {"reports", 4}});
  EXPECT_EQ(outcome.state, FinalState::finished) << outcome.error;
  EXPECT_THAT(statuses(), ElementsAre(CheckpointStatus::validation_timeout));
}

TEST_F(ValidationRunTest, WhoWaitsTooLongIsToldWhatThereIs) {
  request_.validation_task = {.config = {{"do", "hang"}}, .timeout_s = 2};
  const Json ask = {{"validated", true}, {"timeout_s", 0.2}};
  const auto outcome = run({{"checkpoint_every", 1}, {"validate", Json::object()}, {"ask", ask}, {"reports", 1}});
  EXPECT_EQ(outcome.state, FinalState::finished) << outcome.error;
  ASSERT_EQ(outcome.return_value.size(), 1u);
  EXPECT_EQ(outcome.return_value[0]["status"], "pending_validation");
}

}  // namespace
}  // namespace paceline::controller
