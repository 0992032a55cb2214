// num_workers = 0: the train loop in the calling process, alone and as a member of torchrun's group.
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include "paceline/core/posix/descriptor.h"
#include "paceline/track/metrics_history.h"
#include "paceline/train/result.h"
#include "tests/robustness/robustness_fixture.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class CallingProcess : public Robustness {
 protected:
  // A port that nobody has: the system says which.
  static std::string free_port() {
    const Descriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
    EXPECT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    return std::to_string(ntohs(address.sin_port));
  }
  static Environment torchrun(int rank, const std::string& port) {
    return {{"WORKERS", "0"},     {"RANK", std::to_string(rank)}, {"LOCAL_RANK", std::to_string(rank)},
            {"WORLD_SIZE", "2"},  {"LOCAL_WORLD_SIZE", "2"},      {"MASTER_ADDR", "127.0.0.1"},
            {"MASTER_PORT", port}};
  }
};

TEST_F(CallingProcess, TheProgramWorks) {
  auto driver = start("well", {{"WORKERS", "0"}});
  EXPECT_EQ(driver.wait(), 0) << driver.output();
  EXPECT_THAT(driver.output(), HasSubstr("state finished"));
  EXPECT_EQ(checkpoints().size(), 5u);
  EXPECT_THAT(controller_log(), HasSubstr("all workers have finished"));
  expect_clean(driver);
}

TEST_F(CallingProcess, AGoodRunAfterAFailedOneSaysSo) {
  {
    auto failed = start("exception_everywhere");
    ASSERT_EQ(failed.wait(), 1) << failed.output();
    ASSERT_EQ(Result::from_path(folder()).state, "errored");
  }
  auto driver = start("well", {{"WORKERS", "0"}});
  EXPECT_EQ(driver.wait(), 0) << driver.output();
  EXPECT_THAT(driver.output(), HasSubstr("continue from checkpoint_000002"));
  const Result result = Result::from_path(folder());
  EXPECT_EQ(result.state, "finished");
  EXPECT_FALSE(result.error);
  const auto rows = track::read_history(folder()).ValueOrDie();
  EXPECT_EQ(rows.back().attempt, 2);
  EXPECT_EQ(rows.back().report, 5);  // numbers go on
  expect_clean(driver);
}

TEST_F(CallingProcess, NumbersOfReportsAreNotUsedTwice) {
  for (int turn = 0; turn < 2; ++turn) {
    auto driver = start("one_report", {{"WORKERS", "0"}});
    EXPECT_EQ(driver.wait(), 0) << driver.output();
  }
  const auto rows = track::read_history(folder()).ValueOrDie();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].report, 1);
  EXPECT_EQ(rows[1].report, 2);
  EXPECT_EQ(rows[1].attempt, 2);
}

TEST_F(CallingProcess, AnExceptionIsATrainingFailedErrorWithItsFrames) {
  auto driver = start("exception_everywhere", {{"WORKERS", "0"}});
  EXPECT_EQ(driver.wait(), 1);
  EXPECT_THAT(driver.output(), AllOf(HasSubstr("TrainingFailedError: Rank 0 of 1"), HasSubstr("std::runtime_error"),
                                     HasSubstr("bad sample 12345"), HasSubstr("fault_loops.cpp:")));
  const Result result = Result::from_path(folder());
  EXPECT_EQ(result.state, "errored");
  EXPECT_THAT(result.error.value_or(""), HasSubstr("bad sample 12345"));
  EXPECT_EQ(checkpoints().size(), 2u);
  expect_clean(driver);
}

TEST_F(CallingProcess, OneInterruptStopsCleanly) {
  auto driver = start("endless", {{"WORKERS", "0"}});
  ASSERT_TRUE(driver.wait_for_output("metrics: step")) << driver.output();
  driver.signal(SIGINT);
  EXPECT_EQ(driver.wait(), 0) << driver.output();
  EXPECT_THAT(driver.output(), HasSubstr("state aborted"));
  EXPECT_EQ(Result::from_path(folder()).state, "aborted");
  expect_clean(driver);
}

TEST_F(CallingProcess, SigtermStopsCleanlyToo) {
  auto driver = start("endless", {{"WORKERS", "0"}});
  ASSERT_TRUE(driver.wait_for_output("metrics: step")) << driver.output();
  driver.signal(SIGTERM);
  EXPECT_EQ(driver.wait(), 0) << driver.output();
  const Result result = Result::from_path(folder());
  EXPECT_EQ(result.state, "aborted");
  EXPECT_EQ(result.stop_cause, StopCause::terminated);
  expect_clean(driver);
}

// A rank of torchrun's that lived on would hold up its launcher.
TEST_F(CallingProcess, SigtermEndsARankOfTorchruns) {
  auto driver = start("endless", {{"WORKERS", "0"}, {"RANK", "0"}, {"WORLD_SIZE", "1"}});
  ASSERT_TRUE(driver.wait_for_output("metrics: step")) << driver.output();
  driver.signal(SIGTERM);
  EXPECT_EQ(driver.wait(), -SIGTERM) << driver.output();
}

TEST_F(CallingProcess, ABrokenCallbackEndsTheRunWithItsText) {
  auto driver = start("well", {{"WORKERS", "0"}, {"BROKEN_CALLBACK", "1"}});
  EXPECT_EQ(driver.wait(), 1) << driver.output();
  EXPECT_THAT(driver.output(), HasSubstr("the callback is broken"));
  EXPECT_EQ(checkpoints().size(), 1u);
  expect_clean(driver);
}

TEST_F(CallingProcess, ASecondDriverOfTheSameRunIsRefused) {
  auto first = start("endless", {{"WORKERS", "0"}});
  ASSERT_TRUE(first.wait_for_output("metrics: step")) << first.output();
  auto second = start("well", {{"WORKERS", "0"}});
  EXPECT_EQ(second.wait(), 2);
  EXPECT_THAT(second.output(), HasSubstr(std::to_string(first.pid())));
  first.signal(SIGINT);
  EXPECT_EQ(first.wait(), 0) << first.output();
}

TEST_F(CallingProcess, JoinsTorchrunsGroup) {
  const std::string port = free_port();
  // Without a name of their own: rank 0's is everybody's.
  auto one = start_with({"meets", storage_.path()}, torchrun(1, port));
  auto zero = start_with({"meets", storage_.path()}, torchrun(0, port));
  EXPECT_EQ(zero.wait(), 0) << zero.output();
  EXPECT_EQ(one.wait(), 0) << one.output();
  EXPECT_THAT(zero.output(), HasSubstr(R"(rank 0 heard "rank 0")"));
  EXPECT_THAT(one.output(), HasSubstr(R"(rank 1 heard "rank 0")"));

  std::vector<std::string> runs;
  for (const auto& entry : std::filesystem::directory_iterator(storage_.path())) {
    if (entry.is_directory()) runs.push_back(entry.path());
  }
  ASSERT_EQ(runs.size(), 1u);
  for (const auto* driver : {&zero, &one}) {
    EXPECT_THAT(driver->output(), AllOf(HasSubstr("state finished"), HasSubstr("folder " + runs[0] + "\n"),
                                        HasSubstr(R"(metrics {"ranks":3})"), HasSubstr(R"(return value {"rank":0})")));
  }
  const auto published = checkpoint::Store(runs[0]).list().ValueOrDie();
  ASSERT_EQ(published.size(), 3u);
  // What retention scores and what is shown is the ranks' sum, as with workers.
  EXPECT_EQ(published.back().metrics, Json({{"ranks", 3}, {"step", 6}}));
  EXPECT_THAT(zero.output(), AllOf(HasSubstr("metrics: ranks 3"), Not(HasSubstr("metrics: ranks 1"))));
  EXPECT_EQ(track::read_history(runs[0]).ValueOrDie().size(), 8u);
  expect_clean(zero, runs[0]);
}

TEST_F(CallingProcess, AFailingRankOfTorchrunsGroupEndsTheOthers) {
  const std::string port = free_port();
  auto one = start("exception", torchrun(1, port));
  auto zero = start("exception", torchrun(0, port));
  EXPECT_EQ(one.wait(), 1) << one.output();
  EXPECT_EQ(zero.wait(), 1) << zero.output();
  EXPECT_THAT(one.output(), AllOf(HasSubstr("Rank 1 of 2"), HasSubstr("the disk of the data is gone")));
  EXPECT_THAT(zero.output(), HasSubstr("Rank 0 of 2"));
  EXPECT_EQ(checkpoints().size(), 2u);
  expect_clean(zero);
}

TEST_F(CallingProcess, RanksOfTorchrunsGroupThatReportADifferentNumberOfTimesFailWithBothCounts) {
  const std::string port = free_port();
  auto one = start("uneven_reports", torchrun(1, port));
  auto zero = start("uneven_reports", torchrun(0, port));
  EXPECT_EQ(one.wait(), 1) << one.output();
  EXPECT_EQ(zero.wait(), 1) << zero.output();
  for (const auto* driver : {&zero, &one}) {
    EXPECT_THAT(driver->output(), HasSubstr("rank 1 returned after 2 reports; rank 0 has made 3 reports"));
  }
  expect_clean(zero);
}

TEST_F(CallingProcess, WorkersUnderTorchrunAreRefused) {
  auto driver = start("well", {{"RANK", "0"}, {"WORLD_SIZE", "2"}});
  EXPECT_EQ(driver.wait(), 2);
  EXPECT_THAT(driver.output(), HasSubstr("torchrun"));
}

TEST_F(CallingProcess, ATorchrunVariableThatIsNoNumberIsNamed) {
  auto driver = start("well", {{"WORKERS", "0"}, {"RANK", "first"}, {"WORLD_SIZE", "2"}});
  EXPECT_EQ(driver.wait(), 2);
  EXPECT_THAT(driver.output(), AllOf(HasSubstr("RANK is \"first\""), HasSubstr("an integer")));
}

}  // namespace
}  // namespace paceline
