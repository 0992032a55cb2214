#include "paceline/cli/commands/collectives_text.h"

#include <gmock/gmock.h>

namespace paceline::cli {

using namespace views;
namespace {

using ::testing::HasSubstr;

constexpr int64_t kStart = 1'790'000'000'000'000'000;
constexpr int64_t kMillisecond = 1'000'000;

run::KeptCollectives rank_with(int64_t rank, std::vector<CollectiveRecord> records) {
  return {.rank = rank,
          .world_size = 2,
          .reading = {.taken_ns = kStart + 60'000 * kMillisecond, .records = std::move(records)}};
}

CollectiveRecord all_reduce(int64_t number, int64_t begin_ms, int64_t took_ms) {
  const int64_t begin = kStart + begin_ms * kMillisecond;
  return {.group = 1,
          .number = number,
          .call = {Collective::all_reduce, ElementType::float32, int64_t{1} << 20},
          .step = number,
          .called_ns = begin,
          .waited_ns = begin,
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

TEST(CollectivesSummary, NamesTheRanksOfAGroupOfSome) {
  run::KeptCollectives rank = rank_with(2, {all_reduce(12, 0, 0)});
  rank.reading.records[0].group = 77;
  rank.reading.groups = {{.group = 77, .ranks = {0, 2}}};
  rank.reading.records.push_back(rank.reading.records[0]);
  rank.reading.records[1].group = kFirstGroupOfSome;
  EXPECT_THAT(to_text(summary_of("/run", {{1}, {rank}}), 0),
              HasSubstr("rank 2 is in all_reduce 12 of ranks 0, 2 (1.0 MiB of float32)"));
  EXPECT_THAT(to_text(summary_of("/run", {{1}, {rank}}), 0), HasSubstr("all_reduce 12 of some ranks (1.0 MiB"));
}

TEST(CollectivesSummary, NamesWhatIsUnderWay) {
  const CollectivesSummary summary = summary_of("/run", {{1}, {rank_with(1, {all_reduce(12, 0, 0)})}});
  EXPECT_TRUE(summary.kinds.empty());
  EXPECT_THAT(to_text(summary, 0),
              HasSubstr("rank 1 is in all_reduce 12 (1.0 MiB of float32) for 60 s, since step 12\n"));
  EXPECT_EQ(summary.under_way[0].seconds, 60);
}

TEST(CollectivesSummary, OfAWorkerThatHasEndedSaysWhatItWasIn) {
  CollectiveRecord called = all_reduce(13, 0, 0);
  called.waited_ns = 0;
  run::KeptCollectives rank = rank_with(1, {all_reduce(12, 0, 0), called});
  rank.has_ended = true;
  const std::string text = to_text(summary_of("/run", {{1}, {rank}}), 0);
  EXPECT_THAT(text,
              HasSubstr("rank 1 was in all_reduce 12 (1.0 MiB of float32) for 60 s, since step 12, when it ended\n"));
  EXPECT_THAT(text, HasSubstr("rank 1 had called 1 that nobody waited for, from all_reduce 13 (1.0 MiB of float32) on, "
                              "when it ended\n"));
}

TEST(CollectivesSummary, CountsATimeFromTheWaitOn) {
  CollectiveRecord record = all_reduce(1, 0, 5000);
  record.waited_ns += 4900 * kMillisecond;
  CollectiveRecord nobody_waited = all_reduce(2, 5000, 100);
  nobody_waited.waited_ns = 0;
  const CollectivesSummary summary = summary_of("/run", {{1}, {rank_with(0, {record, nobody_waited})}});
  EXPECT_NEAR(summary.kinds.at(0).p99_s, 0.1, 1e-9);
  EXPECT_NEAR(summary.kinds.at(0).share, 0.2 / 5.1, 1e-9);
}

TEST(CollectivesSummary, CountsWhatNobodyWaitsForAndWhatHasFailed) {
  std::vector<CollectiveRecord> records;
  for (int64_t number = 10; number <= 15; ++number) records.push_back(all_reduce(number, 0, number < 13 ? 30'000 : 0));
  records[1].has_failed = records[2].has_failed = true;
  for (size_t i = 3; i < 6; ++i) records[i].waited_ns = 0;
  const CollectivesSummary summary = summary_of("/run", {{1}, {rank_with(0, {}), rank_with(1, records)}});
  EXPECT_EQ(summary.kinds.at(0).count, 1);
  EXPECT_EQ(summary.failed.at(0).count, 2);
  EXPECT_EQ(summary.only_called.at(0).count, 3);
  EXPECT_TRUE(summary.under_way.empty());
  const std::string text = to_text(summary, 0);
  EXPECT_THAT(text,
              HasSubstr("all_reduce 11 (1.0 MiB of float32) failed on rank 1 after 30 s, in step 11; 1 more failed "
                        "there\n"));
  EXPECT_THAT(text, HasSubstr("rank 1 has called 3 that nobody waits for yet, from all_reduce 13 (1.0 MiB of float32) "
                              "on\n"));
}

TEST(CollectivesSummary, OfNoneSaysSo) {
  const CollectivesSummary summary = summary_of("/run", {});
  EXPECT_EQ(summary.folder, "");
  EXPECT_THAT(to_text(summary, 0), ::testing::StartsWith("no collectives: "));
}

}  // namespace
}  // namespace paceline::cli
