#include "paceline/views/log_files.h"

#include <gmock/gmock.h>

namespace paceline::views {
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

}  // namespace
}  // namespace paceline::views
