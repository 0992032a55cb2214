// The program against a run that is live in this process.
#include <gmock/gmock.h>

#include <cstring>
#include <future>

#include "paceline/cli/command.h"
#include "paceline/cli/program_fixture.h"
#include "paceline/controller/run_fixture.h"

namespace paceline::controller {

agent::Guardian& guardian() {
  static agent::Guardian guardian = agent::Guardian::fork_now().ValueOrDie();
  return guardian;
}

}  // namespace paceline::controller

namespace paceline::cli {
namespace {

using ::testing::HasSubstr;

class LiveRunTest : public controller::RunTest {
 protected:
  LiveRunTest() {
    request_.program = {PACELINE_TEST_WORKER};
    callback_ = std::make_shared<controller::TestCallback>();
  }
};

TEST_F(LiveRunTest, IsShownAndStopped) {
  std::future<void> user;
  callback_->report = [&](const RunContext&, const std::vector<Metrics>& metrics, const Checkpoint*) {
    if (metrics[0].get<int64_t>("step") != 2) return;
    user = std::async(std::launch::async, [folder = folder_.path()] {
      const Outcome shown = run_program("show " + folder);
      EXPECT_EQ(shown.exit_code, kDone);
      EXPECT_THAT(shown.output, AllOf(HasSubstr("test: running\n"), HasSubstr("rank 1       training, process "),
                                      HasSubstr("(training)"), HasSubstr("report ")));
      const Json run = Json::parse(run_program("show --json " + folder).output);
      EXPECT_EQ(run["live"], true);
      EXPECT_EQ(run["workers"].size(), 2u);
      const Outcome stopped = run_program("stop " + folder);
      EXPECT_EQ(stopped.exit_code, kDone) << stopped.output;
      EXPECT_THAT(stopped.output, HasSubstr("asked run test to stop"));
    });
  };
  const controller::RunOutcome outcome = run({{"reports", 1'000'000}, {"step_ms", 10}});
  ASSERT_TRUE(user.valid());
  user.get();
  EXPECT_EQ(outcome.state, controller::FinalState::aborted);
  EXPECT_THAT(outcome.error, HasSubstr("paceline stop"));
  const Outcome again = run_program("stop " + folder_.path());
  EXPECT_EQ(again.exit_code, kFailed);
  EXPECT_THAT(again.output, HasSubstr("is aborted already"));
}

}  // namespace
}  // namespace paceline::cli

int main(int argc, char** argv) {
  paceline::controller::guardian();  // while there is one thread
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
