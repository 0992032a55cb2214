// rm and prune: what is deleted, and what is not.
#include "paceline/cli/commands/removal.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "paceline/cli/command.h"
#include "paceline/cli/runs_fixture.h"
#include "paceline/storage/local/durable.h"
#include "paceline/storage/local/run_lock.h"

namespace paceline::cli {

using namespace views;
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RemovalTest : public RunsTest {
 protected:
  void indexed(const std::string& name) {
    finished(name);
    run_program("index " + storage(""));
  }
  std::vector<std::string> folders() const { return testing::names_in(home_ / "storage"); }
};

TEST_F(RemovalTest, DeletesFolderAndEntry) {
  indexed("mnist");
  indexed("other");
  const Outcome outcome = run_program("rm mnist --yes");
  EXPECT_EQ(outcome.exit_code, kDone);
  EXPECT_EQ(outcome.output, "deleted " + storage("mnist") + "\n");
  EXPECT_THAT(folders(), ElementsAre("other"));
  EXPECT_EQ(listed().size(), 1u);
  EXPECT_EQ(run_program("rm mnist --yes").exit_code, kWrongUse) << "no run is called so any more";
}

TEST_F(RemovalTest, AsksAndTakesNoForNo) {
  indexed("mnist");
  const Outcome nobody = run_program("rm mnist < /dev/null");
  EXPECT_EQ(nobody.exit_code, kFailed);
  EXPECT_THAT(nobody.output, AllOf(HasSubstr(storage("mnist")), HasSubstr("--yes")));
  EXPECT_THAT(folders(), ElementsAre("mnist"));
}

TEST_F(RemovalTest, ALiveRunIsRefusedNamingItsDriver) {
  indexed("mnist");
  const auto lock = storage::RunLock::acquire(storage("mnist")).ValueOrDie();
  const Outcome outcome = run_program("rm mnist --yes");
  EXPECT_EQ(outcome.exit_code, kFailed);
  EXPECT_THAT(outcome.output, HasSubstr("is held by process " + std::to_string(::getpid())));
  EXPECT_THAT(folders(), ElementsAre("mnist"));
}

// In a folder that machines share, whose locks do not reach each other.
TEST_F(RemovalTest, ARunThatLivesOnAnotherMachineIsRefusedNamingItsDriver) {
  indexed("mnist");
  const std::string claim = storage("mnist") + "/.lease/000001_other";
  const auto beat = [&](const std::string& more) {
    EXPECT_TRUE(storage::write_atomically(claim, R"({"pid":7,"host":"other")" + more + "}").ok());
  };
  testing::write_file(claim, "{}");
  std::atomic<bool> ends = false;
  std::thread other([&] {
    for (int count = 1; !ends; ++count) beat(R"(,"beat":)" + std::to_string(count));
  });
  const Outcome outcome = run_program("rm mnist --yes");
  ends = true;
  other.join();
  EXPECT_EQ(outcome.exit_code, kFailed);
  EXPECT_THAT(outcome.output, HasSubstr("is held by process 7 on host other"));
  EXPECT_THAT(folders(), ElementsAre("mnist"));
  beat(R"(,"ended":true)");
  EXPECT_EQ(run_program("rm mnist --yes").exit_code, kDone);
  EXPECT_THAT(folders(), IsEmpty());
}

TEST_F(RemovalTest, OfALinkBothAreDeleted) {
  indexed("mnist");
  std::filesystem::create_directory_symlink(storage("mnist"), home_ / "link");
  EXPECT_EQ(run_program("rm --yes " + (home_ / "link")).exit_code, kDone);
  EXPECT_THAT(folders(), IsEmpty());
  EXPECT_FALSE(std::filesystem::is_symlink(home_ / "link"));
}

TEST_F(RemovalTest, AFolderWithoutARunIsNotTouched) {
  testing::write_file(home_ / "precious/file", "content");
  EXPECT_EQ(run_program("rm --yes " + (home_ / "precious")).exit_code, kFailed);
  EXPECT_TRUE(std::filesystem::exists(home_ / "precious/file"));
}

TEST_F(RemovalTest, PruningShowsFirstAndDeletesThen) {
  indexed("mnist");
  indexed("gone");
  std::filesystem::remove_all(storage("gone"));
  EXPECT_EQ(run_program("prune").exit_code, kWrongUse) << "which?";
  const Outcome plan = run_program("prune --gone");
  EXPECT_EQ(plan.exit_code, kDone);
  EXPECT_THAT(plan.output, AllOf(HasSubstr("gone"), HasSubstr("nothing was deleted yet; --yes deletes this run")));
  EXPECT_EQ(listed().size(), 2u);
  const Json json = Json::parse(run_program("prune --gone --yes --json").output);
  EXPECT_EQ(json["removed"], Json::array({storage("gone")}));
  EXPECT_EQ(listed().size(), 1u);
  EXPECT_THAT(folders(), ElementsAre("mnist"));
}

KnownRun known(const std::string& state, DriverState driver, double since, bool gone = false) {
  KnownRun run{
      .run = {.name = state, .path = "/" + state, .state = state, .since = since}, .driver = driver, .gone = gone};
  return run;
}

TEST(Pruning, TakesWhatMeetsEveryCriterionAndNeverALiveRun) {
  const std::vector<KnownRun> runs = {
      known("finished", DriverState::none, 100),      known("errored", DriverState::none, 900),
      known("running", DriverState::alive, 0),        known("restarting", DriverState::gone, 0),
      known("scheduling", DriverState::elsewhere, 0), known("aborted", DriverState::none, 0, true),
  };
  const auto names = [&](const PruneCriteria& criteria) {
    std::vector<std::string> selected;
    for (const KnownRun& run : select_for_pruning(runs, criteria, 1000)) selected.push_back(run.run.name);
    return selected;
  };
  EXPECT_THAT(names({.older_than_s = 500}), ElementsAre("finished", "restarting", "aborted"));
  EXPECT_THAT(names({.failed = true}), ElementsAre("errored", "restarting", "aborted"));
  EXPECT_THAT(names({.older_than_s = 500, .failed = true}), ElementsAre("restarting", "aborted"));
  EXPECT_THAT(names({.gone = true}), ElementsAre("aborted"));
}

TEST(Pruning, AgesHaveUnits) {
  EXPECT_EQ(parse_age("90s").ValueOrDie(), 90);
  EXPECT_EQ(parse_age("1.5h").ValueOrDie(), 5400);
  EXPECT_EQ(parse_age("30d").ValueOrDie(), 30 * 86400);
  for (const char* wrong : {"", "30", "d", "-1d", "3m", "nan d", "30 d"}) EXPECT_FALSE(parse_age(wrong).ok()) << wrong;
}

}  // namespace
}  // namespace paceline::cli
