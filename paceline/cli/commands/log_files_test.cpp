// Which logs are meant, and what `paceline logs` shows of a run that is over.
#include "paceline/views/log_files.h"

#include <gmock/gmock.h>

#include "paceline/cli/command.h"
#include "paceline/cli/runs_fixture.h"

namespace paceline::cli {

using namespace views;
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

track::RunRecord two_attempts() {
  track::RunRecord record;
  record.run = {.name = "mnist", .path = "/run", .attempt = 2};
  record.workers = {{1, {1, 1, 0, "local", 11, "gone"}},
                    {2, {2, 1, 1, "local", 12, "gone"}},
                    {3, {3, 2, 1, "local", 13, "training"}},
                    {4, {4, 2, 0, "local", 14, "training"}}};
  return record;
}

std::vector<std::string> paths(const LogChoice& choice) {
  std::vector<std::string> paths;
  for (const LogFile& log : choose_logs(two_attempts(), choice).ValueOrDie()) paths.push_back(log.path);
  return paths;
}

TEST(LogFiles, AreThoseOfTheLastAttemptByRank) {
  EXPECT_THAT(paths({}), ElementsAre("/run/logs/worker_4.log", "/run/logs/worker_3.log"));
  EXPECT_THAT(paths({.rank = 1}), ElementsAre("/run/logs/worker_3.log"));
  EXPECT_THAT(paths({.rank = 1, .attempt = 1}), ElementsAre("/run/logs/worker_2.log"));
  EXPECT_THAT(paths({.controller = true}), ElementsAre("/run/logs/controller.log"));
}

TEST(LogFiles, SayWhatThereIs) {
  EXPECT_THAT(choose_logs(two_attempts(), {.rank = 7}).status().message(),
              AllOf(HasSubstr("no rank 7"), HasSubstr("0-1")));
  EXPECT_THAT(choose_logs(two_attempts(), {.attempt = 3}).status().message(),
              AllOf(HasSubstr("no attempt 3"), HasSubstr("1-2")));
}

using LogsTest = RunsTest;

TEST_F(LogsTest, OfARunThatIsOver) {
  finished("mnist");  // worker 2 of attempt 2 has rank 0
  testing::write_file(storage("mnist/logs/worker_1.log"), "first attempt\n");
  testing::write_file(storage("mnist/logs/worker_2.log.1"), "oldest\n");
  testing::write_file(storage("mnist/logs/worker_2.log"), "middle\nlatest\n");
  testing::write_file(storage("mnist/logs/controller.log"), "decided\n");
  const std::string run = storage("mnist");
  EXPECT_EQ(run_program("logs " + run).output, "(rank 0) oldest\n(rank 0) middle\n(rank 0) latest\n");
  EXPECT_EQ(run_program("logs --rank 0 -n 2 " + run).output, "middle\nlatest\n");
  EXPECT_EQ(run_program("logs --controller " + run).output, "decided\n");
  EXPECT_EQ(run_program("logs --attempt 1 --rank 0 " + run).output, "first attempt\n");
  EXPECT_EQ(run_program("logs -f -n 1 --json " + run).output, "{\"line\":\"latest\",\"rank\":0,\"worker\":2}\n")
      << "it is over: nothing to follow";
  EXPECT_EQ(run_program("logs --rank 5 " + run).exit_code, kWrongUse);
  EXPECT_EQ(run_program("logs --rank 0 --controller " + run).exit_code, kWrongUse);
}

}  // namespace
}  // namespace paceline::cli
