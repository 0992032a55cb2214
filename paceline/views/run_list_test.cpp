// Which runs a list has, in which order, page after page.
#include "paceline/views/run_list.h"

#include <gmock/gmock.h>

#include "paceline/track/run_id.h"

namespace paceline::views {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

KnownRun known(const std::string& name, const std::string& state, int64_t report) {
  return {.run = {.name = name, .path = "/runs/" + name, .state = state, .report = report}};
}

// The last opened first, as the run store gives them.
VisitRuns store() {
  return [](const std::function<bool(KnownRun)>& visit) {
    KnownRun dead = known("cifar", "running", 7);
    dead.driver = DriverState::gone;
    for (const KnownRun& run : {known("MNIST", "finished", 3), dead, known("a/b?c#d", "errored", 9)}) {
      if (!visit(run)) break;
    }
    return arrow::Status::OK();
  };
}

std::vector<std::string> names(const RunSelection& selection) {
  std::vector<std::string> names;
  for (const ListedRun& run : list_runs(selection, store()).ValueOrDie().runs) names.push_back(run.name);
  return names;
}

TEST(RunList, IsSelectedAndSorted) {
  EXPECT_THAT(names({}), ElementsAre("MNIST", "cifar", "a/b?c#d"));
  EXPECT_THAT(names({.state = "running"}), ElementsAre("cifar"));
  EXPECT_THAT(names({.state = "driver died"}), ElementsAre("cifar"));
  EXPECT_THAT(names({.text = "mnist"}), ElementsAre("MNIST"));
  EXPECT_THAT(names({.sort = "report"}), ElementsAre("MNIST", "cifar", "a/b?c#d"));
  EXPECT_THAT(names({.sort = "-report"}), ElementsAre("a/b?c#d", "cifar", "MNIST"));
  EXPECT_THAT(names({.storage_paths = {"/runs/a"}}), ElementsAre("a/b?c#d"));
  EXPECT_THAT(names({.storage_paths = {"/run"}}), ElementsAre()) << "no part of a folder's name";
}

TEST(RunList, ComesInPages) {
  for (const char* sort : {"", "name", "-report"}) {
    std::vector<std::string> paged;
    RunSelection selection{.sort = sort, .limit = 1};
    do {
      const RunPage page = list_runs(selection, store()).ValueOrDie();
      ASSERT_EQ(page.runs.size(), 1u);
      paged.push_back(page.runs[0].name);
      selection.after = page.next;
    } while (!selection.after.empty());
    EXPECT_EQ(paged, names({.sort = sort})) << sort;
  }
}

TEST(RunList, SaysWhatItDoesNotKnow) {
  EXPECT_THAT(list_runs({.state = "runing"}, store()).status().message(), HasSubstr("did you mean \"running\"?"));
  EXPECT_THAT(list_runs({.sort = "-reprot"}, store()).status().message(), HasSubstr("did you mean \"report\"?"));
  EXPECT_THAT(list_runs({.after = track::run_id("/elsewhere")}, store()).status().message(), HasSubstr("any more"));
}

TEST(RunId, IsOfThePathAlone) {
  EXPECT_EQ(track::run_id("/runs/mnist"), track::run_id("/runs/mnist"));
  EXPECT_NE(track::run_id("/runs/mnist"), track::run_id("/runs/mnist2"));
  EXPECT_TRUE(track::is_run_id(track::run_id("/runs/ä/../%2e")));
  for (const char* no : {"", "mnist", "../../etc/passwd", "0123456789ABCDEF0123456789ABCDEF"}) {
    EXPECT_FALSE(track::is_run_id(no)) << no;
  }
}

}  // namespace
}  // namespace paceline::views
