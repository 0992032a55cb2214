#include "paceline/cli/run_lookup.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "paceline/testing/temporary_folder.h"

namespace paceline::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

std::vector<NamedRun> some_runs() {
  return {{"mnist", "/a/mnist"}, {"mnist_large", "/a/mnist_large"}, {"cifar", "/a/cifar"}, {"cifar", "/b/cifar"}};
}

std::string why_not(const std::string& text) {
  const auto run = choose_run(text, some_runs());
  EXPECT_TRUE(run.status().IsKeyError());
  return run.status().message();
}

TEST(RunLookup, TakesANameOrTheBeginningOfOne) {
  EXPECT_EQ(choose_run("mnist", some_runs())->path, "/a/mnist") << "the whole name, though another begins so";
  EXPECT_EQ(choose_run("mnist_", some_runs())->path, "/a/mnist_large");
}

TEST(RunLookup, SaysWhichRunsMayBeMeant) {
  EXPECT_THAT(why_not("cifar"), AllOf(HasSubstr("any of 2 runs"), HasSubstr("/a/cifar"), HasSubstr("/b/cifar")));
  EXPECT_THAT(why_not("m"), AllOf(HasSubstr("/a/mnist"), HasSubstr("/a/mnist_large")));
  EXPECT_THAT(why_not("mnits"), HasSubstr("did you mean \"mnist\"?"));
  EXPECT_THAT(why_not(""), HasSubstr("no run is called \"\""));
}

TEST(RunLookup, FindsFoldersAndNamesInTheDefaultStorage) {
  const TemporaryFolder home;
  ::setenv("HOME", home.path().c_str(), 1);
  ::setenv("PACELINE_STATE_DIR", (home / "state").c_str(), 1);  // what other tests run is not this one's
  const std::string run = home / "paceline_results/a run";
  testing::write_file(run + "/journal.jsonl", "");
  EXPECT_EQ(find_run(run).ValueOrDie().folder, run);
  EXPECT_EQ(find_run("~/paceline_results/a run/").ValueOrDie().folder, run);  // as quotes keep it from the shell
  EXPECT_EQ(find_run("a run").ValueOrDie().folder, run);
  EXPECT_EQ(find_run("a").ValueOrDie().folder, run);
  EXPECT_THAT(find_run(home.path()).status().message(), HasSubstr("holds no run"));
  EXPECT_THAT(find_run("./a run").status().message(), HasSubstr("holds no run"));
  EXPECT_THAT(find_run("b").status().message(), HasSubstr("no run is called \"b\""));
}

}  // namespace
}  // namespace paceline::cli
