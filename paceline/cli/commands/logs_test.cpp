// What `paceline logs` shows of a run that is over.
#include <gtest/gtest.h>

#include "paceline/cli/command.h"
#include "paceline/cli/runs_fixture.h"

namespace paceline::cli {
namespace {

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
