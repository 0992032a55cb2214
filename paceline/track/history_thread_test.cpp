#include "paceline/track/history_thread.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <condition_variable>
#include <fstream>
#include <future>
#include <mutex>

#include "paceline/testing/temporary_folder.h"

namespace paceline::track {
namespace {

using testing::TemporaryFolder;

HistoryRow row(int64_t report) {
  return {.report = report, .attempt = 1, .time = static_cast<double>(report), .metrics = {{"loss", 0.25}}};
}

// A disk that takes nothing for a while: the thread that has told of one writing does no other.
struct Slow {
  std::mutex mutex;
  std::condition_variable changed;
  bool stands = false;
  int64_t told = 0;

  void tell() {
    std::unique_lock lock(mutex);
    ++told;
    changed.notify_all();
    changed.wait(lock, [this] { return !stands; });
  }
  void stand(bool whether) {
    const std::lock_guard lock(mutex);
    stands = whether;
    changed.notify_all();
  }
  void wait_until_told() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return told > 0; });
  }
};

TEST(HistoryThread, WithNobodyToTellAFlushWaits) {
  const TemporaryFolder run;
  auto history = HistoryThread::open(run.path(), {}).ValueOrDie();
  history->append(row(1));
  EXPECT_EQ(history->flushed_bytes(), 0);
  ASSERT_TRUE(history->flush().ok());
  EXPECT_EQ(history->flushed_bytes(), history->bytes());
  EXPECT_EQ(read_history(run.path())->size(), 1u);
}

TEST(HistoryThread, NobodyWaitsForASlowDiskButWhoSyncs) {
  const TemporaryFolder run;
  Slow slow;
  slow.stand(true);
  auto history = HistoryThread::open(run.path(), {}, [&slow] { slow.tell(); }).ValueOrDie();
  history->append(row(1));
  ASSERT_TRUE(history->flush().ok());
  slow.wait_until_told();  // and stands
  for (int64_t report = 2; report <= 5000; ++report) history->append(row(report));
  ASSERT_TRUE(history->flush().ok());
  EXPECT_GT(history->waiting_bytes(), 300'000);
  EXPECT_EQ(read_history(run.path())->size(), 1u);
  auto synced = std::async(std::launch::async, history->syncing());
  slow.stand(false);
  EXPECT_TRUE(synced.get().ok());
  EXPECT_EQ(history->waiting_bytes(), 0);
  EXPECT_EQ(read_history(run.path())->size(), 5000u);
}

TEST(HistoryThread, WhatCouldNotBeWrittenIsTriedAgain) {
  const TemporaryFolder run;
  ASSERT_EQ(::symlink("/dev/full", (run / "metrics.jsonl").c_str()), 0);
  auto history = HistoryThread::open(run.path(), {}).ValueOrDie();
  history->append(row(1));
  EXPECT_FALSE(history->flush().ok());
  EXPECT_FALSE(history->status().ok());
  EXPECT_FALSE(history->sync().ok());
  EXPECT_GT(history->waiting_bytes(), 0);
}

TEST(HistoryThread, ItsEndWritesWhatIsLeft) {
  const TemporaryFolder run;
  HistoryThread::open(run.path(), {}, [] {}).ValueOrDie()->append(row(1));
  EXPECT_EQ(read_history(run.path())->size(), 1u);
}

}  // namespace
}  // namespace paceline::track
