#include "paceline/controller/report_queue.h"

#include <gmock/gmock.h>

#include <future>
#include <thread>

#include "paceline/testing/temporary_folder.h"

namespace paceline::controller {

using namespace policy;
namespace {

GroupReport group(int64_t report, std::vector<std::optional<Json>> metrics, bool files = false) {
  GroupReport group{.report = report, .metrics = std::move(metrics)};
  if (files) group.parts = {{0, "stage"}};
  return group;
}

class ReportQueueTest : public ::testing::Test {
 protected:
  // Whether users are shown it.
  bool note(int64_t rank, int64_t report, int value, const std::string& reduce = "") {
    const rpc::Report made{.index = report, .metrics = {{"x", value}}, .reduce = reduce};
    return queue_.note(rank, made, {1}, from_seconds(static_cast<double>(10 * report + rank)));
  }
  bool add(GroupReport group) { return queue_.add(std::move(group), {1}, from_seconds(100)); }
  std::vector<int64_t> take() {
    std::vector<int64_t> numbers;
    for (const auto& entry : queue_.take()) numbers.push_back(entry.group.report);
    return numbers;
  }
  std::vector<track::HistoryRow> rows() {
    EXPECT_TRUE(queue_.flush().ok());
    return track::read_history(folder_.path()).ValueOrDie();
  }

  paceline::testing::TemporaryFolder folder_;
  ReportQueue queue_{track::HistoryThread::open(folder_.path(), {}).ValueOrDie(), /*has_takers=*/true};
};

TEST_F(ReportQueueTest, ARanksRowIsThereAlthoughTheOthersMakeNoSuchReport) {
  EXPECT_TRUE(note(0, 1, 5));
  EXPECT_EQ(queue_.unflushed_since(), from_seconds(10));
  ASSERT_EQ(rows().size(), 1u);
  EXPECT_EQ(rows()[0].metrics["x"], 5);
  EXPECT_EQ(rows()[0].time, 10);
}

TEST_F(ReportQueueTest, StoresWhatEachRankMadeAndWhatCameOfIt) {
  EXPECT_FALSE(note(1, 1, 3, "mean"));
  EXPECT_FALSE(note(0, 1, 1, "mean"));
  GroupReport both = group(1, {Json{{"x", 1}}, Json{{"x", 3}}});
  both.reduced = {Json{{"x", 2}}, Json{{"x", 2}}};
  EXPECT_TRUE(add(std::move(both)));
  EXPECT_TRUE(note(0, 2, 5));
  ASSERT_EQ(rows().size(), 3u);
  EXPECT_EQ(rows()[0].metrics["x"], 1);
  EXPECT_EQ(rows()[0].reduced["x"], 2);
  EXPECT_EQ(rows()[1].metrics["x"], 3);
  EXPECT_EQ(rows()[2].metrics["x"], 5);
}

// Users are shown reports in order, although a reduced one is known when the slowest rank has made it.
TEST_F(ReportQueueTest, ReportsBehindAReducedOneAreShownBehindIt) {
  EXPECT_FALSE(note(0, 1, 1, "mean"));
  EXPECT_FALSE(note(0, 2, 2));
  GroupReport first = group(1, {Json{{"x", 1}}, Json{{"x", 3}}});
  first.reduced = {Json{{"x", 2}}, Json{{"x", 2}}};
  EXPECT_TRUE(add(std::move(first)));
  EXPECT_TRUE(add(group(2, {Json{{"x", 2}}, Json{{"x", 4}}})));
  EXPECT_TRUE(note(0, 3, 3));
  std::vector<int> shown;
  ASSERT_TRUE(queue_.flush().ok());
  ASSERT_TRUE(track::visit_history(folder_.path(), [&](const track::HistoryRow& row) {
                if (const Json* metrics = track::shown_metrics(row)) shown.push_back((*metrics)["x"].get<int>());
              }).ok());
  EXPECT_EQ(shown, (std::vector<int>{2, 2, 3}));
}

// Rank 1 never makes report 1, so its numbers are never made one.
TEST_F(ReportQueueTest, WhatDoesNotBecomeCompleteIsShownWithTheGroupsEnd) {
  EXPECT_FALSE(note(0, 1, 1, "mean"));
  EXPECT_FALSE(note(0, 2, 2));
  const auto last = queue_.close_group({1}, from_seconds(50));
  ASSERT_TRUE(last);
  EXPECT_EQ(last->index, 2);
  EXPECT_EQ(last->metrics, Json({{"x", 2}}));
  EXPECT_EQ(rows()[0].reduced["x"], 1);
  EXPECT_TRUE(note(0, 3, 3)) << "of the next group";
}

TEST_F(ReportQueueTest, RowsDoNotWaitForACheckpointButCallbacksDo) {
  note(0, 1, 1);
  add(group(1, {Json{{"x", 1}}}));
  note(0, 2, 2);
  add(group(2, {Json{{"x", 2}}}, true));
  note(0, 3, 3);
  add(group(3, {Json{{"x", 3}}}));
  EXPECT_EQ(take(), (std::vector<int64_t>{1}));
  EXPECT_EQ(rows().size(), 3u);
  ASSERT_NE(queue_.find(2), nullptr);
  EXPECT_EQ(queue_.find(3), nullptr) << "it has no files";
  ASSERT_TRUE(queue_.settle(2, "checkpoint_000002", from_seconds(200)).ok());
  EXPECT_EQ(take(), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(rows()[0].checkpoint, "");
  EXPECT_EQ(rows()[1].checkpoint, "checkpoint_000002");
}

TEST_F(ReportQueueTest, ACheckpointIsOnDiskWithItsRow) {
  note(0, 1, 1);
  add(group(1, {Json{{"x", 1}}}, true));
  ASSERT_TRUE(queue_.settle(1, "checkpoint_000001", from_seconds(20)).ok());
  EXPECT_FALSE(queue_.unflushed_since());
  EXPECT_EQ(track::read_history(folder_.path()).ValueOrDie().at(0).checkpoint, "checkpoint_000001");
}

TEST_F(ReportQueueTest, AtTheEndNothingWaits) {
  add(group(1, {Json{{"x", 1}}}, true));
  queue_.settle_all();
  EXPECT_EQ(take(), (std::vector<int64_t>{1}));
}

// Callbacks are told in order, so what is behind a publication is kept: ranks wait before that is much.
TEST_F(ReportQueueTest, TooManyReportsBehindAPublicationHoldTheRanksUp) {
  add(group(1, {Json{{"x", 1}}}, true));
  for (int64_t report = 2; report <= ReportQueue::kMostWaiting; ++report) add(group(report, {Json{{"x", 1}}}));
  EXPECT_EQ(queue_.held_up_by(), "");
  add(group(ReportQueue::kMostWaiting + 1, {Json{{"x", 1}}}));
  EXPECT_THAT(queue_.held_up_by(),
              ::testing::HasSubstr("the checkpoint of report 1, which is on its way: 256 reports"));
  ASSERT_TRUE(queue_.settle(1, "checkpoint_000001", from_seconds(200)).ok());
  take();
  EXPECT_EQ(queue_.held_up_by(), "");
}

TEST_F(ReportQueueTest, AFewLargeReportsBehindAPublicationHoldTheRanksUp) {
  add(group(1, {Json{{"x", 1}}}, true));
  const Json large{{"text", std::string(ReportQueue::kMostWaitingBytes / 2, 'x')}};
  add(group(2, {Json(large)}));
  EXPECT_EQ(queue_.held_up_by(), "");
  add(group(3, {Json(large)}));
  EXPECT_THAT(queue_.held_up_by(), ::testing::HasSubstr("the checkpoint of report 1, which is on its way: 2 reports"));
  ASSERT_TRUE(queue_.settle(1, "checkpoint_000001", from_seconds(200)).ok());
  take();
  EXPECT_EQ(queue_.held_up_by().find("checkpoint"), std::string::npos);
}

TEST(ReportQueueWithoutTakers, KeepsNothingThatWaitsForNobody) {
  const paceline::testing::TemporaryFolder folder;
  ReportQueue queue(track::HistoryThread::open(folder.path(), {}).ValueOrDie(), /*has_takers=*/false);
  queue.add(group(1, {Json{{"x", 1}}}, true), {1}, from_seconds(1));
  for (int64_t report = 2; report <= 1000; ++report) queue.add(group(report, {Json{{"x", 1}}}), {1}, from_seconds(1));
  EXPECT_EQ(queue.held_up_by(), "");
}

TEST(ReportQueueWithASlowDisk, HoldsTheRanksUpUntilItIsWritten) {
  const paceline::testing::TemporaryFolder folder;
  std::promise<void> gate;
  const std::shared_future<void> opened = gate.get_future().share();
  // The thread that has told of one writing, and stands there, does no other.
  auto history = track::HistoryThread::open(folder.path(), {}, [opened] { opened.wait(); }).ValueOrDie();
  ReportQueue queue(std::move(history), /*has_takers=*/false);
  const auto note = [&queue, text = std::string(1000, 'x')](int64_t report) {
    queue.note(0, {.index = report, .metrics = {{"text", text}}}, {1}, from_seconds(1));
  };
  note(1);
  ASSERT_TRUE(queue.flush().ok());
  while (queue.history().flushed_bytes() == 0) std::this_thread::yield();
  for (int64_t report = 2; report <= 5000; ++report) note(report);
  EXPECT_THAT(queue.held_up_by(), ::testing::HasSubstr("the disk: 5"));
  gate.set_value();
  ASSERT_TRUE(queue.sync().ok());
  EXPECT_EQ(queue.held_up_by(), "");
}

}  // namespace
}  // namespace paceline::controller
