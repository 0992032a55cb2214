// How workers begin: forked from the program as it stood at init(), or executed again.
#include <fstream>
#include <set>

#include "paceline/train/result.h"
#include "tests/robustness/robustness_fixture.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kExecuted = "workers start by executing the program again";

class Start : public Robustness {
 protected:
  // What the train loop `beginnings` says of its workers.
  Json begin(Environment environment, const std::string& run = "run") {
    environment.emplace("PASSAGES", passages_file());
    auto driver = start("beginnings", std::move(environment), run);
    EXPECT_EQ(driver.wait(), 0) << driver.output();
    output_ = driver.output();
    EXPECT_THAT(driver.leftovers(), ::testing::IsEmpty());
    return Result::from_path(storage_ / run).return_value;
  }
  std::string passages_file() const { return temporary_ / "passages"; }
  // How many processes have come through what stands before init().
  int passages() const {
    std::ifstream file(passages_file());
    int lines = 0;
    for (std::string line; std::getline(file, line);) ++lines;
    return lines;
  }

  std::string output_;
};

TEST_F(Start, WhatStandsBeforeInitRunsOnce) {
  begin({{"BEFORE_INIT", "print"}});
  EXPECT_EQ(passages(), 1);
  EXPECT_THAT(output_, Not(HasSubstr(kExecuted)));
  const size_t printed = output_.find("printed before init");
  EXPECT_NE(printed, std::string::npos);
  EXPECT_EQ(output_.find("printed before init", printed + 1), std::string::npos) << output_;
}

TEST_F(Start, WorkersDrawNumbersOfTheirOwn) {
  std::set<double> drawn;
  for (const std::string run : {"first", "second"}) {
    const Json said = begin({{"BEFORE_INIT", "draw"}}, run);
    for (const Json& number : said["drawn"]) drawn.insert(number.get<double>());
  }
  EXPECT_EQ(drawn.size(), 4u);
}

TEST_F(Start, ASeedSetBeforeInitIsEveryWorkersForkedOrExecuted) {
  const Json forked = begin({{"BEFORE_INIT", "seed"}}, "forked")["drawn"];
  EXPECT_EQ(passages(), 1);
  const Json executed = begin({{"BEFORE_INIT", "seed"}, {"PACELINE_START", "exec"}}, "executed")["drawn"];
  EXPECT_EQ(passages(), 1 + 3);
  EXPECT_EQ(forked[0], forked[1]);
  EXPECT_EQ(forked, executed);
}

// MKL, oneDNN, OpenMP and autograd, used with one thread before init(), then with two in each worker.
TEST_F(Start, LibrariesThatWereUsedBeforeInitWorkInForks) {
  const Json said = begin({{"BEFORE_INIT", "libraries"}, {"THREADS", "2"}});
  EXPECT_EQ(passages(), 1);
  EXPECT_EQ(said["started"], 1);
}

TEST_F(Start, AProgramWithThreadsIsExecutedAgain) {
  begin({{"BEFORE_INIT", "thread"}});
  EXPECT_EQ(passages(), 3);
  EXPECT_THAT(output_, HasSubstr(kExecuted));
  EXPECT_THAT(output_, HasSubstr("it had 2 threads (scenarios, scenarios)"));
}

TEST_F(Start, AProgramWithOpenFilesIsExecutedAgain) {
  begin({{"BEFORE_INIT", "open"}});
  EXPECT_EQ(passages(), 3);
  EXPECT_THAT(output_, HasSubstr("it had opened descriptor "));
}

TEST_F(Start, AVariableThatLibrariesReadWhileTheyLoadTakesAnExec) {
  const Json said = begin({{"WORKERS_OMP", "3"}});
  EXPECT_EQ(passages(), 3);
  EXPECT_THAT(output_, HasSubstr("libraries read OMP_NUM_THREADS while they load"));
  EXPECT_EQ(said["omp"], "3");
}

TEST_F(Start, AnExecThatWasAskedForNeedsNoNote) {
  begin({{"PACELINE_START", "exec"}});
  EXPECT_EQ(passages(), 3);
  EXPECT_THAT(output_, Not(HasSubstr(kExecuted)));
}

TEST_F(Start, AnotherWayIsRefused) {
  auto driver = start("beginnings", {{"PACELINE_START", "spoon"}});
  EXPECT_NE(driver.wait(), 0);
  EXPECT_THAT(driver.output(), HasSubstr("PACELINE_START is \"spoon\"; allowed: fork (the default), exec"));
}

}  // namespace
}  // namespace paceline
