#include <gtest/gtest.h>

#include <fstream>

#include "paceline/run/time_spent.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::run {
namespace {

TEST(TimeSpent, OfAnAttemptIsThatOfItsWorkers) {
  AttemptTimes times;
  add(1, {.compute_s = 1, .data_s = 2}, times);
  add(2, {.compute_s = 10}, times);
  add(1, {.compute_s = 4, .starting_s = 3}, times);
  EXPECT_EQ(times, (AttemptTimes{{.attempt = 1, .workers = 2, .spent = {.compute_s = 5, .data_s = 2, .starting_s = 3}},
                                 {.attempt = 2, .workers = 1, .spent = {.compute_s = 10}}}));
}

TEST(TimeSpent, IsKept) {
  const testing::TemporaryFolder folder;
  EXPECT_TRUE(read_time_spent(folder.path()).empty());
  const AttemptTimes times{{.attempt = 1, .workers = 2, .spent = {.compute_s = 5.5, .collectives_s = 0.25}}};
  ASSERT_TRUE(keep_time_spent(folder.path(), times).ok());
  EXPECT_EQ(read_time_spent(folder.path()), times);
  for (const char* damaged : {"", "[{", "{}", R"([{"attempt": "one"}])"}) {
    std::ofstream(folder.path() + "/time_spent.json") << damaged;
    EXPECT_TRUE(read_time_spent(folder.path()).empty()) << damaged;
  }
}

}  // namespace
}  // namespace paceline::run
