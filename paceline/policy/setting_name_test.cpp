#include "paceline/policy/setting_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/policy/decide_fixture.h"

namespace paceline::policy {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> texts(const std::vector<Note>& notes) {
  std::vector<std::string> texts;
  for (const Note& note : notes) texts.push_back(note.text);
  return texts;
}

TEST(SettingName, IsAFieldOfFitsConfigurationOrAFlagOfPacelineRun) {
  EXPECT_EQ(setting_name(Setting::max_failures, false), "FailureConfig.max_failures");
  EXPECT_EQ(setting_name(Setting::max_failures, true), "--max-restarts");
  EXPECT_EQ(setting_name(Setting::heartbeat_timeout, false), "FailureConfig.heartbeat_timeout_s");
  EXPECT_THAT(setting_name(Setting::heartbeat_timeout, true), Not(HasSubstr("Config")));
}

TEST(SettingName, OfEverySettingIsInItsOwnRow) {
  EXPECT_EQ(setting_name(Setting::start_failures, false), "FailureConfig.controller_failure_limit");
  EXPECT_EQ(setting_name(Setting::preemptions, false), "FailureConfig.max_preemption_failures");
  EXPECT_EQ(setting_name(Setting::preemptions, true), "the limit of preemptions") << "there is no flag";
  EXPECT_EQ(setting_name(Setting::start_timeout, false), "FailureConfig.start_timeout_s");
}

TEST(SettingName, IsWhatALaunchSpeaksOf) {
  Play run = Play::training({.num_workers = 2, .max_failures = 1, .launch = true});
  run.exit(run.worker(0), {.exit_code = 3}, Phase::program);
  EXPECT_THAT(texts(run.wanted<Note>()), Contains(HasSubstr("trying again (--max-restarts: 1 of 1)")));
  run = Play::training({.num_workers = 1, .launch = true});
  run.exit(run.worker(0), {.exit_code = 3}, Phase::program);
  EXPECT_THAT(texts(run.wanted<Note>()),
              Contains(AllOf(HasSubstr("giving up: --max-restarts is 0"), Not(HasSubstr("Config")))));
  run = Play::training({.num_workers = 1, .launch = true});
  run.feed(WorkerSilent{.worker = run.worker(0), .silent_s = 30});
  EXPECT_THAT(run.all().failures.front().text, AllOf(HasSubstr("for 30 s"), Not(HasSubstr("Config"))));
}

TEST(SettingName, IsAFieldForTheUsersOfFit) {
  Play run = Play::training({.num_workers = 1});
  run.exit(run.worker(0), {.exit_code = 3});
  EXPECT_THAT(texts(run.wanted<Note>()), Contains(HasSubstr("giving up: FailureConfig.max_failures is 0")));
}

}  // namespace
}  // namespace paceline::policy
