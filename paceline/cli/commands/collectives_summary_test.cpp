#include "paceline/cli/commands/collectives_summary.h"

#include <gmock/gmock.h>

namespace paceline::cli {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kStart = 1'790'000'000'000'000'000;
constexpr int64_t kMillisecond = 1'000'000;

run::KeptCollectives rank_with(int64_t rank, std::vector<CollectiveRecord> records) {
  return {.rank = rank, .world_size = 2, .records = std::move(records)};
}

CollectiveRecord all_reduce(int64_t number, int64_t begin_ms, int64_t took_ms) {
  const int64_t begin = kStart + begin_ms * kMillisecond;
  return {.group = 1,
          .number = number,
          .call = {Collective::all_reduce, ElementType::float32, int64_t{1} << 20},
          .step = number,
          .begin_ns = begin,
          .end_ns = took_ms == 0 ? 0 : begin + took_ms * kMillisecond};
}

TEST(CollectivesSummary, HasTimesBandwidthAndSharePerKindAndSize) {
  std::vector<CollectiveRecord> records;
  for (int64_t number = 1; number <= 100; ++number) records.push_back(all_reduce(number, 10 * number, number));
  CollectiveRecord barrier = all_reduce(101, 1010, 1);
  barrier.call = {Collective::barrier};
  records.push_back(barrier);
  const CollectivesSummary summary = summary_of("/run", {{3}, {rank_with(0, records), rank_with(1, {})}});
  EXPECT_EQ(summary.attempt, 3);
  EXPECT_EQ(summary.folder, "/run/collectives/attempt_3");
  ASSERT_EQ(summary.kinds.size(), 2u);
  const CollectivesOfKind& kind = summary.kinds[0];
  EXPECT_EQ(kind.collective, "all_reduce");
  EXPECT_EQ(kind.up_to_bytes, 1 << 20);
  EXPECT_EQ(kind.count, 100);
  EXPECT_NEAR(kind.median_s, 0.050, 1e-9);
  EXPECT_NEAR(kind.p99_s, 0.099, 1e-9);
  EXPECT_NEAR(kind.bytes_per_s, 100.0 * (1 << 20) / 5.05, 1);
  EXPECT_NEAR(kind.share, 5.05 / 1.09, 1e-9) << "several may be under way at once";
  EXPECT_EQ(summary.kinds[1].up_to_bytes, 0);
  const std::string text = to_text(summary, 0);
  EXPECT_THAT(text, HasSubstr("attempt 3, the last collectives of 2 of 2 ranks"));
  EXPECT_THAT(text, HasSubstr("50 ms"));
  EXPECT_THAT(text, HasSubstr("1.0 MiB"));
}

TEST(CollectivesSummary, NamesWhatIsUnderWay) {
  const CollectivesSummary summary = summary_of("/run", {{1}, {rank_with(1, {all_reduce(12, 0, 0)})}});
  EXPECT_TRUE(summary.kinds.empty());
  EXPECT_THAT(to_text(summary, 0), HasSubstr("rank 1 is in all_reduce 12 (1.0 MiB of float32) since step 12\n"));
}

}  // namespace
}  // namespace paceline::cli
