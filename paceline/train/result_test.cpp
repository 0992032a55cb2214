#include "paceline/train/result.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "paceline/checkpoint/stage.h"
#include "paceline/checkpoint/store.h"
#include "paceline/policy/decide.h"
#include "paceline/run/journal.h"
#include "paceline/testing/temporary_folder.h"
#include "paceline/track/metrics_history.h"

namespace paceline {
namespace {

class ResultTest : public ::testing::Test {
 protected:
  // A run whose best checkpoint has the lowest loss.
  void SetUp() override {
    policy::RunOpened opened;
    opened.epoch = {1};
    opened.options.checkpoint_config = {.checkpoint_score_attribute = "loss", .checkpoint_score_order = "min"};
    add(opened);
  }

  void add(const policy::Event& event) {
    const policy::Actions actions = policy::decide(state_, event, {});
    ASSERT_TRUE(run::Journal::open(folder_).ValueOrDie().append(event, state_, actions, {}).ok());
  }

  void report(int64_t index, const Json& metrics) {
    const Identity identity{.epoch = {1}, .attempt = {1}, .generation = {0}, .worker = {1}};
    auto stage = checkpoint::Stage::create(folder_, identity, index).ValueOrDie();
    stage.add_value("note", index);
    checkpoint::Manifest about{.report = index, .attempt = 1, .world_size = 1, .metrics = metrics};
    ASSERT_TRUE(checkpoint::Store(folder_).publish({{.rank = 0, .staged = stage.finish().ValueOrDie()}}, about).ok());
    auto history = track::HistoryWriter::open(folder_).ValueOrDie();
    ASSERT_TRUE(history.append({.report = index, .metrics = metrics}).ok());
    ASSERT_TRUE(history.append({.report = index, .rank = 1, .metrics = {{"loss", 100}}}).ok());
    ASSERT_TRUE(history.flush().ok());
  }

  policy::RunState state_;
  testing::TemporaryFolder temporary_;
  const std::string& folder_ = temporary_.path();
};

TEST_F(ResultTest, ReadsEverythingFromTheFolder) {
  report(1, {{"loss", 0.5}});
  report(2, {{"loss", 0.25}, {"epoch", 1}});
  const Result result = Result::from_path(folder_ + "/");
  EXPECT_EQ(result.path, folder_);
  EXPECT_EQ(result.metrics.get<double>("loss"), 0.25);
  EXPECT_EQ(result.checkpoint->path(), folder_ + "/checkpoint_000002");
  ASSERT_EQ(result.best_checkpoints.size(), 2u);
  EXPECT_EQ(result.best_checkpoints.back().first.path(), folder_ + "/checkpoint_000002");
  EXPECT_FALSE(result.error);
  EXPECT_EQ(result.metrics_history()->num_rows(), 4);
  EXPECT_NE(result.metrics_history()->GetColumnByName("epoch"), nullptr);
}

TEST_F(ResultTest, SaysWhoStoppedTheRun) {
  EXPECT_FALSE(Result::from_path(folder_).stop_cause);
  add(policy::StopRequested{.reason = "enough", .finish = true, .cause = StopCause::callback});
  const Result result = Result::from_path(folder_);
  EXPECT_EQ(result.state, "finished");
  EXPECT_EQ(result.stop_cause, StopCause::callback);
  EXPECT_EQ(result.stop_reason, "enough");
  EXPECT_FALSE(result.failure_kind);
}

TEST_F(ResultTest, AProgramsExitCodeTellsHowItEnded) {
  using Ending = std::pair<std::string, std::optional<StopCause>>;
  const auto exit_code = [](const Ending& ending) {
    return Result{.state = ending.first, .stop_cause = ending.second}.exit_code();
  };
  EXPECT_EQ(exit_code({"finished", std::nullopt}), 0);
  EXPECT_EQ(exit_code({"finished", StopCause::callback}), 0);
  EXPECT_EQ(exit_code({"aborted", StopCause::interrupt}), 130);
  EXPECT_EQ(exit_code({"aborted", StopCause::terminated}), 143);
  EXPECT_EQ(exit_code({"aborted", StopCause::command_line}), 1);
  EXPECT_EQ(exit_code({"errored", StopCause::interrupt}), 1);
  for (const FailureKind missing : {FailureKind::node, FailureKind::resources}) {
    EXPECT_EQ((Result{.state = "errored", .failure_kind = missing}.exit_code()), 75) << "another try may succeed";
  }
}

TEST_F(ResultTest, SaysWhatFailed) {
  add(policy::CallbackFailed{.callback = "Plot", .error = "no display"});
  const Result result = Result::from_path(folder_);
  EXPECT_EQ(result.state, "errored");
  EXPECT_EQ(result.failure_kind, FailureKind::callback);
  EXPECT_THAT(result.error.value(), ::testing::HasSubstr("no display"));
}

TEST_F(ResultTest, FindsTheBestCheckpoint) {
  report(1, {{"loss", 0.5}, {"eval", {{"accuracy", 0.7}}}});
  report(2, {{"loss", 0.1}, {"eval", {{"accuracy", 0.9}}}});
  report(3, {{"loss", std::nan("")}, {"eval", {{"accuracy", 0.8}}}});
  const Result result = Result::from_path(folder_);
  EXPECT_EQ(result.get_best_checkpoint("loss", "min").path(), folder_ + "/checkpoint_000002");
  EXPECT_EQ(result.get_best_checkpoint("loss", "max").path(), folder_ + "/checkpoint_000001");
  EXPECT_EQ(result.get_best_checkpoint("eval/accuracy", "max").path(), folder_ + "/checkpoint_000002");
  EXPECT_THROW(result.get_best_checkpoint("loss", "highest"), ConfigError);
  try {
    result.get_best_checkpoint("accuracy", "max");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("there is: eval, loss"));
  }
}

TEST(IndexOfBest, CountsNumbersOnly) {
  const std::vector<Metrics> kept = {Metrics(Json::parse(R"({"loss": "none", "$keys": ["loss"]})")),
                                     Metrics(Json::parse(R"({"loss": 2})")), Metrics(Json::parse(R"({"loss": 2.0})")),
                                     Metrics(Json::parse(R"({"loss": [3]})"))};
  EXPECT_EQ(train::index_of_best(kept, "loss", "max", "run"), 1u);
  EXPECT_EQ(train::index_of_best(kept, "loss", "min", "run"), 1u);
  EXPECT_THAT([&] { train::index_of_best(kept, "accuracy", "max", "run"); },
              ::testing::ThrowsMessage<ConfigError>(::testing::StrEq(
                  "Invalid metric name \"accuracy\": no kept checkpoint of run has it; there is: loss")));
  EXPECT_THAT([] { train::index_of_best({}, "loss", "max", "run"); },
              ::testing::ThrowsMessage<ConfigError>(::testing::EndsWith("there is: nothing")));
}

TEST(IndexOfBest, ComparesEveryKindOfNumber) {
  const std::vector<Metrics> kept = {
      Metrics(Json::parse(R"({"m": false})")), Metrics(Json::parse(R"({"m": ["$decimal", "1E+2"]})")),
      Metrics(Json::parse(R"({"m": ["$int", "-18446744073709551617"]})")), Metrics(Json::parse(R"({"m": true})"))};
  EXPECT_EQ(train::index_of_best(kept, "m", "max", "run"), 1u);
  EXPECT_EQ(train::index_of_best(kept, "m", "min", "run"), 2u);
}

TEST(IndexOfBest, SaysThatAMetricIsNoNumber) {
  const std::vector<Metrics> kept = {Metrics({{"m", std::nan("")}}), Metrics({{"m", "high"}})};
  EXPECT_THAT([&] { train::index_of_best(kept, "m", "max", "run"); },
              ::testing::ThrowsMessage<ConfigError>(
                  ::testing::StrEq("Invalid metric name \"m\": no kept checkpoint of run has it as a number other than "
                                   "NaN; there is: m")));
}

TEST_F(ResultTest, ReportsHaveWhatAValidationAdded) {
  report(1, {{"loss", 0.5}});
  report(2, {{"loss", 0.25}});
  policy::RunOpened again;
  again.epoch = {2};
  again.options.max_validations = 1;
  add(again);
  add(policy::NodeJoined{{.name = "node", .cores = 2}});
  add(policy::CheckpointReady{1, ValidationTaskConfig{}});
  add(policy::CheckpointPublished{{.report = 1, .metrics = {{"loss", 0.5}}}});
  EXPECT_EQ(Result::from_path(folder_).reported_metrics()[0].json(), Json({{"loss", 0.5}}));
  ASSERT_EQ(state_.validations.size(), 1u);
  add(policy::ValidationEnded{1, state_.validations[0].worker, {{"accuracy", 0.75}}, ""});
  const auto reported = Result::from_path(folder_).reported_metrics();
  ASSERT_EQ(reported.size(), 2u);
  EXPECT_EQ(reported[0].json(), Json({{"loss", 0.5}, {"accuracy", 0.75}}));
  EXPECT_EQ(reported[1].json(), Json({{"loss", 0.25}}));
}

TEST_F(ResultTest, AFolderWithoutARunIsRefused) {
  const testing::TemporaryFolder other;
  EXPECT_THROW(Result::from_path(other.path()), StorageError);
  EXPECT_THROW(Result::from_path(folder_ + "/absent"), StorageError);
}

}  // namespace
}  // namespace paceline
