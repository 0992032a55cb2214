#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <optional>

#include "paceline/core/error.h"
#include "paceline/train/worker/upload_queue_internal.h"

namespace paceline::train {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Work that ends when the test says so.
class Gate {
 public:
  std::function<std::string()> work(std::string staged) {
    return [opened = opened_, staged = std::move(staged)] {
      opened.wait();
      return staged;
    };
  }
  std::function<std::string()> failure(const std::string& text) {
    return [opened = opened_, text]() -> std::string {
      opened.wait();
      throw std::runtime_error(text);
    };
  }
  void open() { promise_.set_value(); }

 private:
  std::promise<void> promise_;
  std::shared_future<void> opened_ = promise_.get_future().share();
};

class UploadQueueTest : public ::testing::Test {
 protected:
  std::vector<std::string> taken() {
    const std::lock_guard lock(mutex_);
    return taken_;
  }
  static rpc::Report report(int64_t index) { return {.index = index}; }

  std::mutex mutex_;
  std::vector<std::string> taken_;
  std::vector<std::exception_ptr> errors_;
  std::optional<UploadQueue> queue_{
      std::in_place,
      [this](const rpc::Report& report) {
        const std::lock_guard lock(mutex_);
        taken_.push_back(std::to_string(report.index) + report.staged + (report.uploading ? "…" : ""));
      },
      [this](const rpc::CheckpointUploaded& files) {
        const std::lock_guard lock(mutex_);
        taken_.push_back("files of " + std::to_string(files.index) + ": " + files.staged);
      },
      [this](const std::exception_ptr& error) { errors_.push_back(error); }};
};

TEST_F(UploadQueueTest, WithNothingUnderWayAReportIsHandedOverByItsCaller) {
  queue_->submit(report(1), {}, false);
  EXPECT_THAT(taken(), ElementsAre("1"));
  queue_->submit(report(2), ended_upload("b"), false);
  EXPECT_THAT(taken(), ElementsAre("1", "2b"));
}

// However long an upload takes, what is reported meanwhile is handed over at once; files keep the order of reports.
TEST_F(UploadQueueTest, FilesFollowInTheOrderOfReportsAndHoldNoneBack) {
  Gate first, second;
  const Upload slow = queue_->start(first.work("a"));
  const Upload quick = queue_->start(second.work("b"));
  queue_->submit(report(1), slow, false);
  queue_->submit(report(2), quick, false);
  for (int64_t index = 3; index <= 1000; ++index) queue_->submit(report(index), {}, false);
  EXPECT_EQ(taken().size(), 1000u);
  EXPECT_EQ(taken().back(), "1000");
  second.open();
  quick.wait();
  EXPECT_EQ(taken().size(), 1000u);
  first.open();
  queue_->submit(report(1001), ended_upload("c"), true);
  auto last = taken();
  EXPECT_EQ(last.at(0), "1…");
  EXPECT_EQ(last.at(1), "2…");
  std::erase_if(last, [](const std::string& one) { return !one.starts_with("files"); });
  EXPECT_EQ(last.at(0), "files of 1: a");
  EXPECT_EQ(last.at(1), "files of 2: b");
}

TEST_F(UploadQueueTest, TheThirdUploadWaitsForRoom) {
  Gate first, second;
  queue_->start(first.work("a"));
  queue_->start(second.work("b"));
  auto third = std::async(std::launch::async, [this] {
    queue_->wait_for_room();
    return queue_->start([] { return std::string("c"); }).get();
  });
  EXPECT_EQ(third.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  second.open();
  EXPECT_EQ(third.get(), "c");
  first.open();
}

TEST_F(UploadQueueTest, WhoWaitsForRoomIsReleasedByAStop) {
  Gate gate;
  queue_->start(gate.work("a"));
  queue_->start(gate.work("b"));
  auto waiting = std::async(std::launch::async, [this] { queue_->wait_for_room(); });
  queue_->stop();
  waiting.get();
  gate.open();
}

TEST_F(UploadQueueTest, AFailureIsToldOnceWithItsReportAndEndsTheRest) {
  Gate gate;
  const Upload bad = queue_->start(gate.failure("the network is gone"));
  queue_->submit(report(1), {}, false);
  queue_->submit(report(2), bad, false);
  queue_->submit(report(3), {}, false);
  gate.open();
  try {
    queue_->drain();
    FAIL();
  } catch (const StorageError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("report 2"), HasSubstr("the network is gone")));
  }
  EXPECT_THROW(queue_->submit(report(4), {}, false), StorageError);
  EXPECT_THAT(taken(), ElementsAre("1", "2…", "3"));
  EXPECT_EQ(errors_.size(), 1u);
}

TEST_F(UploadQueueTest, DestructionWaitsForNoWorkAndHandsNothingOver) {
  Gate gate;
  std::promise<void> begun;
  const Upload stuck = queue_->start([&begun, work = gate.work("a")] {
    begun.set_value();
    return work();
  });
  queue_->submit(report(1), stuck, false);
  begun.get_future().wait();  // what has not begun would be dropped
  queue_.reset();
  gate.open();
  EXPECT_EQ(stuck.get(), "a");
  EXPECT_THAT(taken(), ElementsAre("1…"));
}

}  // namespace
}  // namespace paceline::train
