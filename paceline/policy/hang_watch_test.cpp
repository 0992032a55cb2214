#include "paceline/policy/hang_watch.h"

#include <gmock/gmock.h>

namespace paceline::policy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

RankProgress idle_rank(double idle_s, double cpu_s = 0) {
  return {.rank = 0, .progress = {.step = 9, .phase = "training", .idle_s = idle_s, .marks = 9, .cpu_s = cpu_s}};
}

TEST(HangWatch, ReportsAHangOnce) {
  HangWatch watch{{}};
  EXPECT_FALSE(watch.look({idle_rank(29)}));
  EXPECT_THAT(watch.look({idle_rank(31)})->text, HasSubstr("rank 0 makes no progress"));
  EXPECT_FALSE(watch.look({idle_rank(32)}));
  EXPECT_FALSE(watch.look({idle_rank(0)}));  // it goes on
  EXPECT_TRUE(watch.look({idle_rank(31)}));
}

TEST(HangWatch, ARankThatUsesItsProcessorIsNotCertainToHang) {
  HangWatch watch{{}};
  EXPECT_FALSE(watch.look({idle_rank(1, 100)}));
  EXPECT_FALSE(watch.look({idle_rank(31, 129)})->certain);
  EXPECT_FALSE(watch.look({idle_rank(40, 138)}));
  EXPECT_TRUE(watch.look({idle_rank(600, 690)})->certain);  // DebugConfig.hang_start_s
}

TEST(HangWatch, ProcessorTimeBeforeTheLastProgressDoesNotCount) {
  HangWatch watch{{}};
  EXPECT_FALSE(watch.look({idle_rank(20, 100)}));
  EXPECT_FALSE(watch.look({idle_rank(0, 120)}));
  EXPECT_TRUE(watch.look({idle_rank(31, 120)})->certain);
}

TEST(HangWatch, NamesASlowRankOnceInAGroup) {
  const auto timed = [](int64_t rank, double step_s) {
    return RankProgress{.rank = rank, .progress = {.steps_timed = kStepsToCompare, .step_s = step_s}};
  };
  HangWatch watch{{}};
  EXPECT_THAT(watch.new_stragglers({timed(0, 1), timed(1, 2)}), ElementsAre(Straggler{1, 2, 1}));
  EXPECT_THAT(watch.new_stragglers({timed(0, 1), timed(1, 3)}), IsEmpty());
  watch.forget();
  EXPECT_THAT(watch.new_stragglers({timed(0, 1), timed(1, 3)}), ElementsAre(Straggler{1, 3, 1}));
}

TEST(HangWatch, TheReportTellsWhereEveryRankStands) {
  RankProgress finished = idle_rank(40);
  finished.rank = 1;
  finished.finished = true;
  EXPECT_EQ(report_text({.text = "rank 0 makes no progress"}, {idle_rank(41), finished}),
            "rank 0 makes no progress\n\nrank 0 is in step 9 (training) for 41 s\nrank 1 has returned from its train "
            "loop\n");
}

}  // namespace
}  // namespace paceline::policy
