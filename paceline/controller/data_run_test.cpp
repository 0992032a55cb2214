// Data processes: real ones, which workers connect to.
#include <gmock/gmock.h>

#include "paceline/controller/run_fixture.h"

namespace paceline::controller {

using namespace policy;
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class DataRunTest : public RunTest {
 protected:
  DataRunTest() { request_.has_datasets = true; }

  static std::set<std::string> distinct(const Json& answers) { return answers.get<std::set<std::string>>(); }
};

TEST_F(DataRunTest, OneProcessServesAllAttempts) {
  request_.run_config.failure_config.max_failures = 1;
  const Json killed = {{"rank", 0}, {"attempt", 1}, {"at", 2}, {"do", "signal"}, {"signal", SIGKILL}};
  const auto outcome = run({{"data", true}, {"faults", {killed}}});
  EXPECT_EQ(outcome.state, FinalState::finished) << outcome.error;
  EXPECT_THAT(outcome.return_value, SizeIs(3));
  EXPECT_THAT(distinct(outcome.return_value), SizeIs(1)) << "one process answers";
  const RunState state = run::replay(folder_.path()).ValueOrDie().value();
  EXPECT_EQ(state.data_processes.at(0).ends, 0);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "logs/data_1.log"));
}

TEST_F(DataRunTest, AnotherTakesThePlaceOfOneThatDies) {
  const auto outcome = run({{"data", true}, {"data_process", "once"}});
  EXPECT_EQ(outcome.state, FinalState::finished) << outcome.error;
  const RunState state = run::replay(folder_.path()).ValueOrDie().value();
  EXPECT_EQ(state.attempt.value, 1) << "that costs no attempt";
  EXPECT_EQ(state.data_processes.at(0).ends, 1);
}

TEST_F(DataRunTest, OneThatCannotLiveFailsTheRun) {
  const auto outcome = run({{"data", true}, {"data_process", "exit"}});
  EXPECT_EQ(outcome.state, FinalState::errored);
  EXPECT_THAT(outcome.error, HasSubstr("data process of the node has ended 4 times in this attempt"));
  EXPECT_THAT(outcome.error, HasSubstr("exited with code 3"));
}

}  // namespace
}  // namespace paceline::controller
