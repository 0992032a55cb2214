// Which rank was slow when: workers of all attempts, on all nodes.
#include "paceline/views/step_times.h"

#include <gtest/gtest.h>

#include "paceline/core/run_layout.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::views {
namespace {

TEST(StepTimes, OfAllNodesAndAttemptsByRank) {
  const testing::TemporaryFolder folder;
  const auto keep = [&](const std::string& node, double first, int64_t worker, double seconds) {
    track::SampleFiles files(folder / run_layout::node_samples(node), "node", node);
    const std::string process = "process/" + std::to_string(worker) + "/";
    for (int second = 0; second < 10; ++second) {
      files.add({.time = first + second, .values = {{process + "step_s", seconds}, {process + "threads", 3}}});
    }
  };
  keep("a", 1000, 1, 0.25);
  keep("b", 1000, 2, 0.5);
  keep("c", 1010, 3, 1.0 / 3);  // rank 1 of the second attempt
  keep("d", 1010, 9, 7);        // never had a rank
  track::RunRecord record;
  record.run = {.path = folder.path(), .state = "running", .created = 1000, .attempt = 2};
  record.workers = {{1, {.worker = 1, .attempt = 1, .rank = 0, .node = "a"}},
                    {2, {.worker = 2, .attempt = 1, .rank = 1, .node = "b"}},
                    {3, {.worker = 3, .attempt = 2, .rank = 1, .node = "c"}},
                    {9, {.worker = 9, .attempt = 2, .rank = -1, .node = "d"}}};

  const StepTimes times = step_times(record, {}, 1019.5);
  EXPECT_EQ(times.ranks, (std::vector<int64_t>{0, 1}));
  ASSERT_EQ(times.time.size(), 20u);
  EXPECT_EQ(times.step_s[0][4], 0.25);
  EXPECT_EQ(times.step_s[0][14], std::nullopt);
  EXPECT_EQ(times.step_s[1][4], 0.5);
  EXPECT_EQ(Json(times.step_s[1][14]).dump(), "0.333333");

  const StepTimes part = step_times(record, {.from = 1004, .to = 1008, .points = 2}, 1019.5);
  EXPECT_EQ(part.seconds, 2);
  EXPECT_EQ(part.time, (std::vector<double>{1004, 1006}));
  record.run.path = folder / "nowhere";
  EXPECT_TRUE(step_times(record, {}, 1019.5).time.empty());
}

}  // namespace
}  // namespace paceline::views
