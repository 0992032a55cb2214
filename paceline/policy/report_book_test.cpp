#include "paceline/policy/report_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace paceline::policy {
namespace {

using ::testing::HasSubstr;

rpc::Report metrics(int64_t index, double loss) {
  return {.index = index, .metrics = {{"loss", loss}}};
}
rpc::Report saved(int64_t index, std::string staged = "") {
  return {.index = index, .has_checkpoint = true, .collective_save = true, .staged = std::move(staged)};
}
rpc::Report folder(int64_t index, std::string staged) {
  return {.index = index, .has_checkpoint = true, .staged = std::move(staged)};
}

TEST(ReportBook, AReportCompletesWithTheLastRank) {
  ReportBook book(2, 1);
  EXPECT_TRUE(book.add(0, metrics(1, 0.5)).ValueOrDie().empty());
  EXPECT_TRUE(book.add(0, metrics(2, 0.4)).ValueOrDie().empty());
  const auto completed = book.add(1, metrics(1, 0.6)).ValueOrDie();
  ASSERT_EQ(completed.size(), 1u);
  EXPECT_EQ(completed[0].report, 1);
  EXPECT_EQ((*completed[0].metrics[0])["loss"], 0.5);
  EXPECT_EQ((*completed[0].metrics[1])["loss"], 0.6);
  EXPECT_EQ(book.last_report(0), 2);
}

TEST(ReportBook, PartsOfSomeRanksAreOneCheckpoint) {
  ReportBook book(3, 5);
  book.add(2, folder(5, "c")).ValueOrDie();
  book.add(1, metrics(5, 1)).ValueOrDie();
  const auto completed = book.add(0, folder(5, "a")).ValueOrDie();
  ASSERT_EQ(completed.size(), 1u);
  ASSERT_EQ(completed[0].parts.size(), 2u);
  EXPECT_EQ(completed[0].parts[0].staged, "a");
  EXPECT_EQ(completed[0].parts[1].rank, 2);
}

TEST(ReportBook, TheFolderHasTheNameThatTheLowestRankGives) {
  ReportBook book(3, 1);
  rpc::Report named = folder(1, "a");
  named.folder_name = "epoch_1";
  book.add(1, named).ValueOrDie();
  book.add(0, metrics(1, 1)).ValueOrDie();
  EXPECT_EQ(book.add(2, named).ValueOrDie().at(0).folder_name, "epoch_1");
  named.index = 2;
  book.add(1, named).ValueOrDie();
  named.folder_name = "epoch_2";
  book.add(0, named).ValueOrDie();
  named.folder_name = "epoch_3";
  EXPECT_EQ(book.add(2, named).ValueOrDie().at(0).folder_name, "epoch_2");
}

TEST(ReportBook, CollectiveSaveOnSomeRanksNamesTheMissing) {
  ReportBook book(3, 1);
  book.add(0, saved(1, "x")).ValueOrDie();
  book.add(1, metrics(1, 1)).ValueOrDie();
  const auto refused = book.add(2, metrics(1, 1));
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.status().message(), HasSubstr("on rank 0 but not on ranks 1-2"));
  EXPECT_TRUE(book.add(0, metrics(2, 1)).ValueOrDie().empty()) << "the book takes nothing more";
}

TEST(ReportBook, CollectiveSaveOnAllRanksIsFine) {
  ReportBook book(2, 1);
  book.add(1, saved(1)).ValueOrDie();
  EXPECT_EQ(book.add(0, saved(1, "x")).ValueOrDie().at(0).parts.size(), 1u);
}

TEST(ReportBook, DifferentReduceIsAnError) {
  ReportBook book(2, 1);
  book.add(0, {.index = 1, .reduce = "mean"}).ValueOrDie();
  EXPECT_THAT(book.add(1, {.index = 1}).status().message(), HasSubstr("rank 0 says \"mean\", rank 1 says none"));
}

TEST(ReportBook, ReturningWhileACheckpointWaitsGivesBothCounts) {
  for (const bool the_other_has_returned : {false, true}) {
    ReportBook book(2, 11);
    for (int64_t i = 11; i < 13; ++i) book.add(0, metrics(i, 1)).ValueOrDie();
    book.add(0, folder(13, "x")).ValueOrDie();
    if (the_other_has_returned) {
      EXPECT_TRUE(book.finish(0).ok());
    }
    book.add(1, metrics(11, 1)).ValueOrDie();
    const arrow::Status status = book.finish(1);
    EXPECT_THAT(status.message(), HasSubstr("rank 1 returned after 1 report; rank 0 has made 3 reports"));
  }
}

TEST(ReportBook, AlsoWhenTheOtherReportsLater) {
  ReportBook book(3, 1);
  EXPECT_TRUE(book.finish(1).ok());
  EXPECT_TRUE(book.finish(2).ok());
  EXPECT_TRUE(book.add(0, metrics(1, 1)).ok());
  EXPECT_THAT(book.add(0, folder(2, "x")).status().message(),
              HasSubstr("ranks 1-2 returned after 0 reports; rank 0 has made 2 reports"));
}

TEST(ReportBook, SurplusMetricsAreNoErrorButSaid) {
  ReportBook book(2, 1);
  book.add(0, metrics(1, 0.5)).ValueOrDie();
  EXPECT_EQ(book.take_warning(), "");
  EXPECT_TRUE(book.finish(1).ok());
  EXPECT_THAT(book.take_warning(), HasSubstr("rank 0 has made 1 report, rank 1 has made 0"));
  book.add(0, metrics(2, 0.25)).ValueOrDie();
  EXPECT_TRUE(book.finish(0).ok());
  EXPECT_EQ(book.take_warning(), "") << "said once";
}

TEST(ReportBook, ARankFarAheadIsNamedOnce) {
  ReportBook book(3, 11);
  for (int64_t report = 11; report <= 10 + kFarAhead; ++report) book.add(1, metrics(report, 1)).ValueOrDie();
  EXPECT_EQ(book.take_warning(), "");
  book.add(1, metrics(11 + kFarAhead, 1)).ValueOrDie();
  EXPECT_THAT(book.take_warning(), HasSubstr("rank 1 has made 301 reports, ranks 0, 2 have made 0"));
  book.add(1, metrics(12 + kFarAhead, 1)).ValueOrDie();
  EXPECT_EQ(book.take_warning(), "");
}

TEST(ReportBook, ACheckpointThatWaitsIsNamedSoon) {
  ReportBook book(2, 1);
  book.add(0, metrics(1, 1)).ValueOrDie();
  book.add(0, folder(2, "x")).ValueOrDie();
  for (int64_t report = 3; report < 2 + kAheadOfACheckpoint; ++report) {
    book.add(0, metrics(report, 1)).ValueOrDie();
    EXPECT_EQ(book.take_warning(), "");
  }
  book.add(0, metrics(2 + kAheadOfACheckpoint, 1)).ValueOrDie();
  EXPECT_THAT(book.take_warning(), HasSubstr("the checkpoint of report 2 is published when every rank"));
}

TEST(ReportBook, WhatWaitsIsBounded) {
  ReportBook book(2, 1);
  for (int64_t report = 1; report <= 3 * kMostAhead; ++report) {
    EXPECT_TRUE(book.add(0, metrics(report, 1)).ValueOrDie().empty());
  }
  EXPECT_TRUE(book.is_settled(2 * kMostAhead));
  EXPECT_FALSE(book.is_settled(2 * kMostAhead + 1));
  for (int64_t report = 1; report <= 2 * kMostAhead; ++report) {
    EXPECT_TRUE(book.add(1, metrics(report, 2)).ValueOrDie().empty()) << "given up";
  }
  EXPECT_EQ(book.add(1, metrics(2 * kMostAhead + 1, 2)).ValueOrDie().at(0).report, 2 * kMostAhead + 1);
}

TEST(ReportBook, ACheckpointIsNotGivenUpInSilence) {
  ReportBook waiting(2, 1);
  waiting.add(0, folder(1, "x")).ValueOrDie();
  for (int64_t report = 2; report <= kMostAhead; ++report) waiting.add(0, metrics(report, 1)).ValueOrDie();
  EXPECT_THAT(waiting.add(0, metrics(kMostAhead + 1, 1)).status().message(),
              HasSubstr("rank 0 has made 1001 reports, rank 1 has made 0: the checkpoint of report 1 waits"));

  ReportBook late(2, 1);
  for (int64_t report = 1; report <= kMostAhead + 1; ++report) late.add(0, metrics(report, 1)).ValueOrDie();
  EXPECT_THAT(late.add(1, folder(1, "y")).status().message(),
              HasSubstr("rank 1 hands over a checkpoint with report 1"));
}

TEST(ReportBook, AGapInARanksReportsIsRefused) {
  ReportBook book(1, 3);
  EXPECT_FALSE(book.add(0, metrics(4, 1)).ok());
}

TEST(ReduceMetrics, NumbersOfAllRanksOthersOfEach) {
  std::vector<std::optional<Json>> ranks = {
      Json{{"loss", 1.0}, {"rows", 3}, {"name", "a"}, {"eval", {{"accuracy", 0.5}}}, {"flag", true}},
      Json{{"loss", 3.0}, {"rows", 4}, {"name", "b"}, {"eval", {{"accuracy", 1.0}}}, {"only", 7}}, std::nullopt};
  auto mean = ranks;
  reduce_metrics(mean, "mean");
  EXPECT_EQ((*mean[0])["loss"], 2.0);
  EXPECT_EQ((*mean[1])["rows"], 3.5);
  EXPECT_EQ((*mean[1])["name"], "b");
  EXPECT_EQ((*mean[0])["eval"]["accuracy"], 0.75);
  EXPECT_EQ((*mean[0])["flag"], true);
  EXPECT_EQ((*mean[1])["only"], 7);
  auto sum = ranks;
  reduce_metrics(sum, "sum");
  EXPECT_EQ((*sum[0])["rows"], 7);
  EXPECT_TRUE((*sum[0])["rows"].is_number_integer());
  auto low = ranks;
  reduce_metrics(low, "min");
  EXPECT_EQ((*low[1])["loss"], 1.0);
}

TEST(ReduceMetrics, TheMeanOfEqualIntegersIsThatInteger) {
  std::vector<std::optional<Json>> ranks(2, Json{{"epoch", 3}});
  reduce_metrics(ranks, "mean");
  EXPECT_TRUE((*ranks[1])["epoch"].is_number_integer());
  EXPECT_EQ((*ranks[1])["epoch"], 3);
}

TEST(ReduceMetrics, ASumThatIsTooLargeIsNoInteger) {
  std::vector<std::optional<Json>> ranks(
      2, Json{{"above", std::numeric_limits<uint64_t>::max()}, {"below", std::numeric_limits<int64_t>::min()}});
  reduce_metrics(ranks, "sum");
  EXPECT_TRUE((*ranks[0])["above"].is_number_float());
  EXPECT_EQ((*ranks[0])["above"].get<double>(), 0x1p65);
  EXPECT_TRUE((*ranks[0])["below"].is_number_float());
  EXPECT_EQ((*ranks[0])["below"].get<double>(), -0x1p64);
}

TEST(ReduceMetrics, IntegersAreCombinedExactly) {
  constexpr uint64_t kLarge = (1ULL << 63) + 5;
  const auto reduced = [](const Json& first, const Json& second, const std::string& reduce) {
    std::vector<std::optional<Json>> ranks = {Json{{"x", first}}, Json{{"x", second}}};
    reduce_metrics(ranks, reduce);
    return (*ranks[0])["x"].dump();
  };
  EXPECT_EQ(reduced(kLarge, 3, "max"), "9223372036854775813");
  EXPECT_EQ(reduced(kLarge, 3, "min"), "3");
  EXPECT_EQ(reduced(kLarge, 3, "sum"), "9223372036854775816");
  EXPECT_EQ(reduced(kLarge, -10, "sum"), "9223372036854775803");
  EXPECT_EQ(reduced(-1, std::numeric_limits<uint64_t>::max(), "mean"), Json(0x1p63 - 1).dump());
  EXPECT_EQ(reduced(kLarge, kLarge, "mean"), "9223372036854775813");
  EXPECT_EQ(reduced((1LL << 53) + 1, (1LL << 53) + 3, "mean"), Json(0x1p53 + 2).dump());
}

TEST(ReduceMetrics, WhatIsNoNumberOfJsonStaysEachRanksOwn) {
  const Json large = {"$int", "1180591620717411303424"};
  std::vector<std::optional<Json>> ranks = {Json{{"x", large}, {"y", true}}, Json{{"x", 3}, {"y", 1}}};
  reduce_metrics(ranks, "sum");
  EXPECT_EQ((*ranks[0])["x"], large);
  EXPECT_EQ((*ranks[1])["x"], 3);
  EXPECT_EQ((*ranks[0])["y"], true);
}

TEST(ReportBook, ReducesWithoutForgettingTheRanks) {
  ReportBook book(2, 1);
  book.add(0, {.index = 1, .metrics = {{"loss", 1.0}}, .reduce = "mean"}).ValueOrDie();
  const auto groups = book.add(1, {.index = 1, .metrics = {{"loss", 3.0}}, .reduce = "mean"}).ValueOrDie();
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ((*groups[0].metrics[1])["loss"], 3.0);
  EXPECT_EQ((*groups[0].shown()[1])["loss"], 2.0);
}

TEST(ReduceMetrics, ANaNShows) {
  for (const bool first : {true, false}) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    std::vector<std::optional<Json>> ranks = {Json{{"x", first ? nan : 1.0}}, Json{{"x", first ? 1.0 : nan}}};
    reduce_metrics(ranks, "max");
    EXPECT_TRUE(std::isnan((*ranks[0])["x"].get<double>()));
  }
}

// Whatever the order in which ranks' reports arrive: each report completes once, in order, with every rank's metrics.
TEST(ReportBook, AnyOrderOfArrivalGivesTheSame) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    const int64_t world = 1 + static_cast<int64_t>(random() % 6);
    const int64_t count = static_cast<int64_t>(random() % 20);
    ReportBook book(world, 1);
    std::vector<int64_t> next(static_cast<size_t>(world), 1);
    int64_t completed = 0;
    for (int64_t left = world * count; left > 0;) {
      const auto rank = static_cast<size_t>(random() % static_cast<uint64_t>(world));
      if (next[rank] > count) continue;
      --left;
      const auto groups = book.add(static_cast<int64_t>(rank), metrics(next[rank]++, static_cast<double>(rank)));
      for (const GroupReport& group : groups.ValueOrDie()) {
        EXPECT_EQ(group.report, ++completed);
        for (size_t other = 0; other < group.metrics.size(); ++other) {
          EXPECT_EQ((*group.metrics[other])["loss"], static_cast<double>(other));
        }
      }
    }
    EXPECT_EQ(completed, count);
    EXPECT_TRUE(book.is_settled(count));
  }
}

// A report is complete without its files; checkpoints are ready in the order of reports.
TEST(ReportBookUploads, HoldBackNoMetricsAndKeepTheOrderOfCheckpoints) {
  ReportBook book(2, 1);
  const auto add = [&book](int64_t rank, const rpc::Report& report) {
    return book.add(rank, report).ValueOrDie().size();
  };
  const auto ready = [&book] {
    std::string text;
    for (const ReadyCheckpoint& one : book.take_ready()) {
      text += std::to_string(one.report) + ":";
      for (const auto& part : one.parts) text += std::to_string(part.rank) + part.staged;
      text += " ";
    }
    return text;
  };
  EXPECT_EQ(add(1, {.index = 1, .has_checkpoint = true, .uploading = true}), 0u);
  book.add_upload(1, {.index = 1, .staged = "b"});
  EXPECT_EQ(add(0, {.index = 1, .has_checkpoint = true, .uploading = true}), 1u);
  for (int64_t index = 2; index <= 5; ++index) {
    // Rank 1's checkpoint of report 3 is there before rank 0's of report 1.
    const bool has = index == 3;
    EXPECT_EQ(add(1, {.index = index, .has_checkpoint = has, .staged = has ? "d" : ""}), 0u);
    EXPECT_EQ(add(0, {.index = index}), 1u);
  }
  EXPECT_EQ(ready(), "");
  EXPECT_FALSE(book.is_settled(5)) << "with the files of report 1";
  EXPECT_EQ(book.unready(), (std::vector<int64_t>{1, 3}));
  book.add_upload(0, {.index = 1, .staged = "a"});
  EXPECT_TRUE(book.is_settled(5));
  EXPECT_EQ(ready(), "1:0a1b 3:1d ");
  EXPECT_EQ(ready(), "");
  book.add_upload(0, {.index = 1, .staged = "again"});
  EXPECT_EQ(ready(), "");
}

// Of a rank that has failed: what the others are still to make.
TEST(ReportBookAwaited, IsTheLastReportOfARankUntilItIsSettled) {
  ReportBook book(2, 5);
  EXPECT_EQ(book.awaited_of(0, false).report, 0) << "it has made none";
  book.add(0, folder(5, "a")).ValueOrDie();
  book.add(0, metrics(6, 1)).ValueOrDie();
  EXPECT_EQ(book.awaited_of(0, false).report, 6);
  EXPECT_TRUE(book.awaited_of(0, false).has_checkpoint) << "of report 5";
  book.add(1, metrics(5, 1)).ValueOrDie();
  EXPECT_FALSE(book.awaited_of(0, false).has_checkpoint);
  EXPECT_EQ(book.awaited_of(1, false).report, 0) << "all have made its last report";
  EXPECT_EQ(book.awaited_of(1, false, 6).report, -1) << "report 6 cannot come without it";
  EXPECT_TRUE(book.finish(1).ok());
  EXPECT_EQ(book.awaited_of(0, false).report, 0) << "rank 1 will not make report 6";
}

TEST(ReportBookAwaited, HasFilesOnTheirWayUnlessTheyAreOfAProcessThatIsGone) {
  ReportBook book(2, 1);
  book.add(0, {.index = 1, .has_checkpoint = true, .uploading = true}).ValueOrDie();
  book.add(1, metrics(1, 1)).ValueOrDie();
  EXPECT_EQ(book.awaited_of(0, false).report, 1);
  EXPECT_TRUE(book.awaited_of(1, true).has_checkpoint) << "rank 0 lives";
  EXPECT_EQ(book.awaited_of(0, true).report, -1) << "its files are lost";
  book.add_upload(0, {.index = 1, .staged = "a"});
  EXPECT_EQ(book.awaited_of(0, false).report, 0);
}

}  // namespace
}  // namespace paceline::policy
