#include "paceline/core/collective_ledger.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <map>
#include <random>
#include <thread>

#include "paceline/core/posix/shared_memory.h"

namespace paceline {
namespace {

class CollectiveLedgerTest : public ::testing::Test {
 protected:
  // All fields follow from the number, so that a mixture of two records is seen.
  static CollectiveRecord record_of(int64_t number) {
    return {.group = number % 7 + 1,
            .number = number,
            .call = {.collective = static_cast<Collective>(number % 9 + 1),
                     .type = static_cast<ElementType>(number % 13),
                     .bytes = 3 * number},
            .step = 5 * number,
            .called_ns = 11 * number};
  }
  static void expect_whole(const CollectiveRecord& record) {
    const CollectiveRecord wanted = record_of(record.number);
    EXPECT_EQ(record.group, wanted.group);
    EXPECT_EQ(record.call.collective, wanted.call.collective);
    EXPECT_EQ(record.call.type, wanted.call.type);
    EXPECT_EQ(record.call.bytes, wanted.call.bytes);
    EXPECT_EQ(record.step, wanted.step);
    EXPECT_EQ(record.called_ns, wanted.called_ns);
    if (record.waited_ns != 0) {  // its own time, or that of a later one of the group, which holds for it too
      const int64_t waited_for = record.waited_ns / 11;
      EXPECT_EQ(record.waited_ns, record_of(waited_for).called_ns);
      EXPECT_EQ(record_of(waited_for).group, wanted.group);
      EXPECT_GE(waited_for, record.number);
    }
    if (record.has_ended()) {
      EXPECT_EQ(record.end_ns, wanted.called_ns + 1);
      EXPECT_EQ(record.has_failed, record.number % 5 == 0);
    }
  }
  int64_t begin(int64_t number) { return ledger_.call(record_of(number)); }
  void end(int64_t position, int64_t number) {
    ledger_.end(position, record_of(number).called_ns + 1, number % 5 == 0);
  }

  const SharedMemory memory_ = SharedMemory::create("ledger", sizeof(CollectiveLedger)).ValueOrDie();
  CollectiveLedger& ledger_ = *reinterpret_cast<CollectiveLedger*>(memory_.bytes().data());
};

constexpr auto kRecords = static_cast<int64_t>(CollectiveLedger::kRecords);

TEST_F(CollectiveLedgerTest, IsEmptyAtFirst) {
  EXPECT_TRUE(ledger_.read().empty());
}

TEST_F(CollectiveLedgerTest, RandomBeginsAndEndsAreTheLastOfAModel) {
  std::mt19937 random(7);
  std::map<int64_t, bool> ended;                       // by number
  std::vector<std::pair<int64_t, int64_t>> under_way;  // position, number
  for (int64_t number = 1; number <= 3 * kRecords; ++number) {
    under_way.emplace_back(begin(number), number);
    ended[number] = false;
    while (under_way.size() > random() % 20) {
      const size_t which = random() % under_way.size();
      end(under_way[which].first, under_way[which].second);
      ended[under_way[which].second] = true;
      under_way.erase(under_way.begin() + static_cast<std::ptrdiff_t>(which));
    }
    if (number % 1000 != 0) continue;
    const std::vector<CollectiveRecord> records = ledger_.read();
    ASSERT_EQ(std::ssize(records), std::min(number, kRecords));
    for (size_t i = 0; i < records.size(); ++i) {
      expect_whole(records[i]);
      EXPECT_EQ(records[i].number, number - std::ssize(records) + 1 + static_cast<int64_t>(i));
      EXPECT_EQ(records[i].has_ended(), ended.at(records[i].number));
    }
  }
}

TEST_F(CollectiveLedgerTest, TheEndOfWhatHasLostItsPlaceChangesNothing) {
  const int64_t first = begin(1);
  for (int64_t number = 2; number <= kRecords + 1; ++number) begin(number);
  end(first, 1);
  for (const CollectiveRecord& record : ledger_.read()) EXPECT_FALSE(record.has_ended());
}

TEST_F(CollectiveLedgerTest, AReaderSeesOnlyWholeRecordsWhileSeveralWrite) {
  std::atomic<bool> stop = false;
  std::atomic<int64_t> next = 1;
  std::vector<std::thread> writers;
  for (int writer = 0; writer < 2; ++writer) {
    writers.emplace_back([&] {
      while (!stop) {
        const int64_t number = next.fetch_add(1);
        const int64_t position = begin(number);
        ledger_.wait(position, record_of(number).called_ns);
        end(position, number);
      }
    });
  }
  int64_t seen = 0;
  for (int round = 0; round < 200 || seen == 0; ++round) {
    const std::vector<CollectiveRecord> records = ledger_.read();
    for (const CollectiveRecord& record : records) expect_whole(record);
    seen += std::ssize(records);
    if (HasFailure()) break;
  }
  stop = true;
  for (std::thread& writer : writers) writer.join();
  EXPECT_GT(seen, 0);
}

TEST_F(CollectiveLedgerTest, OutlivesAWriterThatIsKilled) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    for (int64_t number = 1;; ++number) end(begin(number), number);
  }
  while (ledger_.read().size() < CollectiveLedger::kRecords / 2) std::this_thread::yield();
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  const std::vector<CollectiveRecord> records = ledger_.read();
  // One may be half-written.
  EXPECT_GE(records.size(), CollectiveLedger::kRecords / 2 - 1);
  for (const CollectiveRecord& record : records) expect_whole(record);
}

TEST_F(CollectiveLedgerTest, AHalfWrittenRecordIsLeftOutAndItsPlaceStaysFree) {
  for (int64_t number = 1; number <= 10; ++number) begin(number);
  // What a writer leaves that dies in begin(): the stamp of the record before the last, odd. Entries come behind the
  // two counters, at the next cache line.
  auto* const entries = reinterpret_cast<LedgerEntry*>(memory_.bytes().data() + sizeof(LedgerEntry));
  entries[8].stamp.store(17);
  const std::vector<CollectiveRecord> records = ledger_.read();
  ASSERT_EQ(records.size(), 9u);
  for (const CollectiveRecord& record : records) EXPECT_NE(record.number, 9);
  int64_t lost = 0;
  for (int64_t number = 11; number <= 10 + kRecords; ++number) lost += begin(number) < 0 ? 1 : 0;
  EXPECT_EQ(lost, 1);
  EXPECT_EQ(std::ssize(ledger_.read()), kRecords - 1);
}

TEST_F(CollectiveLedgerTest, ForgetsWhatWasBefore) {
  begin(1);
  ledger_.forget();
  EXPECT_TRUE(ledger_.read().empty());
  begin(2);
  ASSERT_EQ(ledger_.read().size(), 1u);
  EXPECT_EQ(ledger_.read()[0].number, 2);
}

TEST_F(CollectiveLedgerTest, TheFirstWaitIsNoted) {
  const int64_t waited = begin(1), not_waited = begin(2), late = begin(3);
  EXPECT_TRUE(ledger_.wait(waited, 50));
  EXPECT_FALSE(ledger_.wait(waited, 60));
  ledger_.end(late, 70);
  EXPECT_FALSE(ledger_.wait(late, 80)) << "it has ended";
  EXPECT_FALSE(ledger_.wait(-1, 90));
  const std::vector<CollectiveRecord> records = ledger_.read();
  EXPECT_EQ(records[0].waited_ns, 50);
  EXPECT_TRUE(records[0].is_under_way());
  EXPECT_TRUE(records[1].is_only_called());
  EXPECT_EQ(records[2].waited_ns, 0);
  EXPECT_TRUE(records[2].has_ended());
  ledger_.end(not_waited, 95, true);
  EXPECT_TRUE(ledger_.read()[1].has_failed);
  EXPECT_FALSE(ledger_.read()[2].has_failed);
}

TEST_F(CollectiveLedgerTest, WhatWasCalledBeforeOneThatIsWaitedForIsWaitedForToo) {
  const auto call = [this](int64_t group, int64_t number) {
    return ledger_.call({.group = group, .number = number, .called_ns = 10 * number});
  };
  const int64_t alone = call(1, 1);
  call(1, 2);
  call(2, 1);
  const int64_t last = call(1, 3);
  call(1, 4);
  ledger_.end(alone, 35);  // carried out before anybody waited
  ledger_.wait(last, 40);
  std::vector<int64_t> waited;
  for (const CollectiveRecord& record : ledger_.read()) waited.push_back(record.waited_ns);
  EXPECT_EQ(waited, (std::vector<int64_t>{0, 40, 0, 40, 0}));
}

TEST_F(CollectiveLedgerTest, WhatADeviceCarriesOutHasItsOwnTimes) {
  const auto launch = [this](int64_t number) {
    return ledger_.call({.group = 1, .number = number, .called_ns = number, .waited_ns = number, .is_on_device = true});
  };
  const int64_t first = launch(1), second = launch(2);
  EXPECT_TRUE(ledger_.read()[0].is_under_way());
  ledger_.end_carried_out(first, 50, 70);
  const std::vector<CollectiveRecord> records = ledger_.read();
  EXPECT_EQ(records[0].called_ns, 1);
  EXPECT_EQ(records[0].start_ns(), 50);
  EXPECT_EQ(records[0].end_ns, 70);
  EXPECT_TRUE(records[1].is_under_way());
  for (int64_t number = 3; number < kRecords + 3; ++number) launch(number);
  ledger_.end_carried_out(second, 70, 90);
  ledger_.end_carried_out(-1, 70, 90);
  for (const CollectiveRecord& record : ledger_.read()) {
    EXPECT_EQ(record.waited_ns, record.called_ns) << "that of one that has lost its place";
    EXPECT_FALSE(record.has_ended());
  }
}

TEST_F(CollectiveLedgerTest, RecordsTravelAsBytes) {
  for (int64_t number = 1; number <= 100; ++number) {
    CollectiveRecord record = record_of(number);
    record.is_on_device = number % 10 == 0;
    const int64_t position = ledger_.call(record);
    if (number % 4 != 0) ledger_.wait(position, 12 * number);
    if (number % 3 != 0) end(position, number);
  }
  const LedgerReading reading{.taken_ns = 7, .groups = {{9, {1, 3}}, {11, {}}}, .records = ledger_.read()};
  const std::string bytes = encode_reading(reading);
  const LedgerReading back = decode_reading(bytes).ValueOrDie();
  EXPECT_EQ(back.taken_ns, 7);
  EXPECT_EQ(back.groups, reading.groups);
  EXPECT_EQ(back.records, reading.records);
  ASSERT_NE(back.ranks_of(9), nullptr);
  EXPECT_EQ(back.ranks_of(1), nullptr);
  EXPECT_TRUE(decode_reading(bytes.substr(1)).status().IsInvalid());
  EXPECT_TRUE(decode_reading("").status().IsInvalid());
  for (size_t length = 0; length < bytes.size(); length += 8) (void)decode_reading(bytes.substr(0, length));
  EXPECT_TRUE(decode_reading(bytes.substr(0, 24)).status().IsInvalid());
  EXPECT_TRUE(decode_reading(encode_reading({})).ValueOrDie().records.empty());
}

}  // namespace
}  // namespace paceline
