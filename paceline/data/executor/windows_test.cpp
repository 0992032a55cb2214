#include "paceline/data/executor/windows.h"
#include "paceline/data/memory/kept_pages.h"
#include "paceline/data/memory/reading_memory.h"

#include <arrow/buffer.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <thread>

#include "paceline/data/executor/batch_stream.h"
#include "paceline/data/executor/mixed_stream.h"
#include "paceline/data/executor/read_pool.h"
#include "paceline/data/executor/row_stream.h"
#include "paceline/data/testing_internal.h"

namespace paceline::data {
namespace {

using Numbers = std::vector<int64_t>;

Numbers all_of(RowStream& stream, int64_t batch_size) {
  Numbers all;
  while (const auto batch = stream.next(batch_size).ValueOrDie()) {
    for (const int64_t value : values_of(*batch)) all.push_back(value);
  }
  return all;
}

// Counts how often each chunk is read, and how much of it is there at a time.
class CountingReads : public Source {
 public:
  explicit CountingReads(std::shared_ptr<const Source> source, int64_t broken = -1)
      : reads(source->chunks().size()), source_(std::move(source)), broken_(broken) {}
  arrow::Result<std::shared_ptr<arrow::Schema>> schema() const override { return source_->schema(); }
  const std::vector<ChunkSize>& chunks() const override { return source_->chunks(); }
  bool counts_rows() const override { return source_->counts_rows(); }
  uint64_t fingerprint() const override { return source_->fingerprint(); }
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> read(int64_t chunk, uint64_t key) const override {
    ++reads[static_cast<size_t>(chunk)];
    if (chunk == broken_) return arrow::Status::IOError("chunk ", chunk, " is broken");
    return source_->read(chunk, key);
  }
  int all_reads() const {
    int all = 0;
    for (const auto& of_chunk : reads) all += of_chunk;
    return all;
  }
  mutable std::vector<std::atomic<int>> reads;

 private:
  const std::shared_ptr<const Source> source_;
  const int64_t broken_;
};

std::shared_ptr<const Source> numbered_chunks(int64_t chunks, int64_t rows) {
  arrow::RecordBatchVector batches;
  int64_t next = 0;
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    Numbers values(static_cast<size_t>(rows));
    for (int64_t& value : values) value = next++;
    batches.push_back(numbers_of(values));
  }
  return memory_source(batches[0]->schema(), batches).ValueOrDie();
}

EpochOrder random_order(const Source& source, std::mt19937_64& random) {
  return EpochOrder(source.chunks(), {.shuffle = static_cast<Shuffle>(random() % 4),
                                      .seed = static_cast<int64_t>(random() % 100),
                                      .window_bytes = static_cast<int64_t>(random() % 1500)});
}

TEST(Windows, GiveEachConsumerTheSameWhateverTheOthersDo) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    std::mt19937_64 random(seed);
    std::shared_ptr<const Source> source = random_source(random);
    if (random() % 3 == 0) source = std::make_shared<OddRows>(source);
    const EpochOrder order = random_order(*source, random);
    RowStream alone(source, order, {.threads = 0});
    const Numbers wanted = all_of(alone, 10);

    auto pool = std::make_shared<ReadPool>(static_cast<int>(random() % 4), static_cast<int64_t>(random() % 3000));
    const std::shared_ptr<Ledger> ledger = pool->ledger();
    auto windows = std::make_shared<Windows>(source, order, pool);
    std::vector<std::unique_ptr<RowStream>> streams;
    std::vector<Numbers> given(1 + random() % 4);
    for (size_t i = 0; i < given.size(); ++i) streams.push_back(std::make_unique<RowStream>(windows));
    std::vector<size_t> left(given.size());
    for (size_t i = 0; i < left.size(); ++i) left[i] = i;
    while (!left.empty()) {  // in any order
      const size_t which = random() % left.size();
      const auto batch = streams[left[which]]->next(static_cast<int64_t>(1 + random() % 50)).ValueOrDie();
      if (batch != nullptr) {
        for (const int64_t value : values_of(*batch)) given[left[which]].push_back(value);
      } else {
        left.erase(left.begin() + static_cast<std::ptrdiff_t>(which));
      }
    }
    for (const Numbers& numbers : given) ASSERT_EQ(numbers, wanted) << "seed " << seed;
    streams.clear();
    windows.reset();
    pool.reset();  // waits for threads that are at it
    EXPECT_EQ(ledger->held(), 0) << "seed " << seed;
  }
}

TEST(Windows, ManyThreadsConsumeAtOnce) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    std::mt19937_64 random(seed);
    const auto source = random_source(random);
    const EpochOrder order = random_order(*source, random);
    RowStream alone(source, order, {.threads = 0});
    const Numbers wanted = all_of(alone, 10);
    const auto windows = std::make_shared<Windows>(
        source, order,
        std::make_shared<ReadPool>(static_cast<int>(random() % 4), static_cast<int64_t>(random() % 3000)));
    std::vector<Numbers> given(4);
    std::vector<std::thread> consumers;
    for (size_t i = 0; i < given.size(); ++i) {
      consumers.emplace_back([&, i] {
        RowStream stream(windows);
        given[i] = all_of(stream, static_cast<int64_t>(3 + 7 * i));
      });
    }
    for (std::thread& consumer : consumers) consumer.join();
    for (const Numbers& numbers : given) ASSERT_EQ(numbers, wanted) << "seed " << seed;
  }
}

// Of so many rows that they are mixed in several bins, with chunks of all sizes.
TEST(Windows, ManyRowsComeAsTheOrderSays) {
  arrow::RecordBatchVector batches;
  int64_t next = 0;
  for (const int64_t rows : {9000, 10, 20, 0, 5000, 4096, 30, 20'000}) {
    Numbers values(static_cast<size_t>(rows));
    for (int64_t& value : values) value = next++;
    batches.push_back(numbers_of(values));
  }
  const std::shared_ptr<const Source> all = memory_source(batches[0]->schema(), batches).ValueOrDie();
  const std::shared_ptr<const Source> odd = std::make_shared<OddRows>(all);
  for (const auto& source : {all, odd}) {
    for (const int64_t window_bytes : {int64_t{100'000}, int64_t{1} << 30}) {
      const EpochOrder order(source->chunks(), {.shuffle = Shuffle::rows, .seed = 3, .window_bytes = window_bytes});
      Numbers wanted;
      for (const Window& window : order.windows()) {
        Numbers counts;
        Numbers values;  // as the chunks have them
        for (int64_t place = window.first_chunk; place < window.first_chunk + window.chunks; ++place) {
          const auto rows = values_of(**source->read(order.chunks()[static_cast<size_t>(place)], order.key()));
          counts.push_back(std::ssize(rows));
          values.insert(values.end(), rows.begin(), rows.end());
        }
        for (const uint32_t row : order.mixed(window, counts)) wanted.push_back(values[row]);
      }
      for (const int threads : {0, 1, 3}) {
        RowStream stream(source, order, {.threads = threads, .read_ahead_bytes = 300'000});
        ASSERT_EQ(all_of(stream, 1000), wanted) << threads << " threads";
      }
      RowStream stream(source, order, {});
      ASSERT_TRUE(stream.skip(10'001).ok());
      ASSERT_EQ(all_of(stream, 20'000), Numbers(wanted.begin() + 10'001, wanted.end()));
    }
  }
}

TEST(Windows, ConsumersInStepReadEachChunkOnce) {
  for (const int threads : {0, 1, 3}) {
    const auto source = std::make_shared<CountingReads>(numbered_chunks(40, 100));
    const auto windows = std::make_shared<Windows>(
        source, EpochOrder(source->chunks(), {.shuffle = Shuffle::rows, .window_bytes = 3000}),
        std::make_shared<ReadPool>(threads, 20'000));
    std::vector<std::unique_ptr<BatchStream>> ranks;
    for (int64_t rank = 0; rank < 4; ++rank) {
      ranks.push_back(std::make_unique<BatchStream>(
          windows, BatchStreamOptions{
                       .batch_size = 10, .rank = rank, .world_size = 4, .equal = Equal::drop, .prefetch_batches = 1}));
    }
    for (int step = 0; step < 100; ++step) {
      for (const auto& rank : ranks) ASSERT_EQ((*rank->next())->num_rows(), 10);
    }
    for (const auto& rank : ranks) ASSERT_EQ(*rank->next(), nullptr);
    EXPECT_EQ(source->all_reads(), 40) << threads << " threads";
  }
}

// A rank that stops, as rank 0 does while it validates: what it has is dropped, and read again when it comes back.
TEST(Windows, AConsumerThatStopsHoldsNobodyBack) {
  const auto source = std::make_shared<CountingReads>(numbered_chunks(60, 100));
  const auto pool = std::make_shared<ReadPool>(2, 5 * 800);
  const auto windows = std::make_shared<Windows>(source, EpochOrder(source->chunks(), {}), pool);
  RowStream stopped(windows);
  RowStream going(windows);
  Numbers of_stopped = values_of(**stopped.next(150));
  ASSERT_EQ((*going.next(1050))->num_rows(), 1050);
  const int read_so_far = source->all_reads();
  EXPECT_EQ(all_of(going, 50).size(), 6000u - 1050u);
  EXPECT_LE(pool->ledger()->peak(), 12 * 800);
  EXPECT_LE(source->all_reads() - read_so_far, 60);
  for (const int64_t value : all_of(stopped, 50)) of_stopped.push_back(value);
  ASSERT_EQ(of_stopped.size(), 6000u);
  for (size_t row = 0; row < of_stopped.size(); ++row) ASSERT_EQ(of_stopped[row], static_cast<int64_t>(row));
}

// How many chunks are read at a time.
class CountingReaders : public CountingReads {
 public:
  using CountingReads::CountingReads;
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> read(int64_t chunk, uint64_t key) const override {
    const int64_t now = ++readers_;
    for (int64_t before = most; now > before && !most.compare_exchange_weak(before, now);) {
    }
    std::this_thread::yield();  // to the others
    auto rows = CountingReads::read(chunk, key);
    --readers_;
    return rows;
  }
  mutable std::atomic<int64_t> most = 0;

 private:
  mutable std::atomic<int64_t> readers_ = 0;
};

TEST(Windows, BeyondTheBudgetOneChunkIsReadAfterTheOther) {
  const auto source = std::make_shared<CountingReaders>(numbered_chunks(64, 1000));
  const EpochOrder order(source->chunks(), {.shuffle = Shuffle::rows, .seed = 1, .window_bytes = 4 * 8000});
  ASSERT_TRUE(order.mixes_rows());
  // While a chunk is mixed it is there twice: there is room for one such, but not for two.
  auto pool = std::make_shared<ReadPool>(4, 20'000);
  auto windows = std::make_shared<Windows>(source, order, pool);
  RowStream stream(windows);
  EXPECT_EQ(all_of(stream, 4000).size(), 64'000u);
  EXPECT_EQ(source->most, 1);
}

// Reads the first rows of another dataset for each chunk, as a function of a user's may.
class ReadsAnother : public CountingReads {
 public:
  ReadsAnother(std::shared_ptr<const Source> source, std::function<int64_t()> read_another)
      : CountingReads(std::move(source)), read_another_(std::move(read_another)) {}
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> read(int64_t chunk, uint64_t key) const override {
    others += read_another_();
    return CountingReads::read(chunk, key);
  }
  mutable std::atomic<int64_t> others = 0;

 private:
  const std::function<int64_t()> read_another_;
};

TEST(Windows, AFunctionMayReadAnotherDatasetBeyondTheBudget) {
  const auto another = numbered_chunks(4, 1000);
  for (const int threads : {0, 1, 2}) {
    auto pool = std::make_shared<ReadPool>(threads, 4000);
    const auto source = std::make_shared<ReadsAnother>(numbered_chunks(8, 1000), [&] {
      RowStream inner(std::make_shared<Windows>(another, EpochOrder(another->chunks(), {}), pool));
      return inner.next(3).ValueOrDie()->num_rows();
    });
    RowStream stream(std::make_shared<Windows>(source, EpochOrder(source->chunks(), {}), pool));
    EXPECT_EQ(all_of(stream, 1000).size(), 8000u);
    EXPECT_EQ(source->others, 3 * source->all_reads()) << threads << " threads";
  }
}

TEST(Windows, ABatchOfTwoWindowsHoldsTheFirstNoLongerThanItHasTo) {
  const auto source = std::make_shared<CountingReads>(numbered_chunks(16, 1000));
  auto pool = std::make_shared<ReadPool>(2, 12'000);  // for one window, of 8,000 bytes
  RowStream stream(std::make_shared<Windows>(source, EpochOrder(source->chunks(), {}), pool));
  EXPECT_EQ(all_of(stream, 1500).size(), 16'000u);
  EXPECT_LE(pool->ledger()->peak(), 12'000);
}

TEST(Windows, RowsThatAreMixedInABufferCount) {
  const auto source = numbered_chunks(4, 1000);
  const auto pool = std::make_shared<ReadPool>(0, 100'000);
  MixedStream stream(std::make_shared<Windows>(source, EpochOrder(source->chunks(), {}), pool), /*key=*/1,
                     {.buffer_rows = 4000});
  ASSERT_EQ((*stream.next(10))->num_rows(), 10);
  EXPECT_GE(pool->ledger()->held(), 32'000);
  ASSERT_EQ((*stream.next(4000))->num_rows(), 3990);
  EXPECT_EQ(*stream.next(1), nullptr);
  EXPECT_LT(pool->ledger()->held(), 32'000);
}

TEST(ReadPool, FewerThreadsReadAheadTheMoreThereIs) {
  const auto of_four = [](int64_t windows_ahead) { return threads_reading_ahead(4, windows_ahead); };
  EXPECT_EQ(of_four(0), 4);
  EXPECT_EQ(of_four(9), 4);
  EXPECT_EQ(of_four(10), 3);
  EXPECT_EQ(of_four(14), 1);
  EXPECT_EQ(of_four(1000), 1);
  EXPECT_EQ(threads_reading_ahead(1, 0), 1);
}

// Notes how many read at once.
class CrowdedReads : public CountingReads {
 public:
  using CountingReads::CountingReads;
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> read(int64_t chunk, uint64_t key) const override {
    const int begun_before = begun++;
    if (++reading > threads_reading_ahead(4, begun_before)) ++too_many;
    for (int i = 0; i < 20; ++i) std::this_thread::yield();  // so that the others come meanwhile
    auto batch = CountingReads::read(chunk, key);
    --reading;
    return batch;
  }
  mutable std::atomic<int> begun = 0;
  mutable std::atomic<int> reading = 0;
  mutable std::atomic<int> too_many = 0;
};

TEST(Windows, ThreadsLeaveTheCoresToAConsumerThatHasEnoughBeforeIt) {
  const auto source = std::make_shared<CrowdedReads>(numbered_chunks(40, 10));
  const auto windows = std::make_shared<Windows>(source, EpochOrder(source->chunks(), {}),
                                                 std::make_shared<ReadPool>(4, int64_t{1} << 30));
  RowStream stream(windows);
  ASSERT_EQ((*stream.next(1))->num_rows(), 1);
  while (source->all_reads() < 40) std::this_thread::yield();
  EXPECT_EQ(source->too_many, 0);
  EXPECT_EQ(all_of(stream, 64).size(), 399u);
}

TEST(Windows, CountWhatIsReadAndTaken) {
  const auto source = std::make_shared<CountingReads>(numbered_chunks(10, 100));
  const auto pool = std::make_shared<ReadPool>(2, 4 * 800);
  const auto statistics = std::make_shared<ReadAheadStatistics>();
  const auto windows = std::make_shared<Windows>(source, EpochOrder(source->chunks(), {}), pool, statistics);
  RowStream first(windows);
  RowStream second(windows);
  for (int step = 0; step < 10; ++step) {
    for (RowStream* stream : {&first, &second}) ASSERT_EQ((*stream->next(100))->num_rows(), 100);
    EXPECT_LE(windows->in_memory().second, 4 * 800);
  }
  EXPECT_EQ(statistics->windows_read, 10);
  EXPECT_EQ(statistics->windows_taken, 20);
  EXPECT_GT(statistics->waited_ns, 0) << "for the first window at least";
}

TEST(Windows, AnErrorReachesEachConsumerInItsPlace) {
  const auto source = std::make_shared<CountingReads>(numbered_chunks(5, 100), /*broken=*/2);
  for (const int threads : {0, 2}) {
    const auto windows = std::make_shared<Windows>(source, EpochOrder(source->chunks(), {}),
                                                   std::make_shared<ReadPool>(threads, 10'000));
    RowStream first(windows);
    RowStream second(windows);
    for (RowStream* stream : {&first, &second}) {
      EXPECT_EQ((*stream->next(200))->num_rows(), 200);
      EXPECT_EQ(stream->next(1).status().message(), "chunk 2 is broken");
      EXPECT_EQ(stream->next(1).status().message(), "chunk 2 is broken");
    }
    ASSERT_TRUE(second.skip(100).ok());
    EXPECT_EQ(all_of(second, 64).size(), 200u);
  }
}

int64_t rows_of(BatchStream& stream) {
  int64_t rows = 0;
  while (const auto batch = stream.next().ValueOrDie()) rows += batch->num_rows();
  return rows;
}

// The next epoch may be begun before this one ends: it costs one window until somebody reads it.
TEST(Windows, AnEpochThatNobodyReadsYetReadsNoFurtherThanItsFirstBatch) {
  const auto source = std::make_shared<CountingReads>(numbered_chunks(20, 100));
  const auto pool = std::make_shared<ReadPool>(2, 100'000);
  const auto windows_of = [&](int64_t epoch) {
    return std::make_shared<Windows>(source, EpochOrder(source->chunks(), {.epoch = epoch}), pool);
  };
  BatchStream now(windows_of(0), {.batch_size = 100, .prefetch_batches = 1});
  ASSERT_EQ((*now.next())->num_rows(), 100);
  while (!now.is_near_end()) ASSERT_TRUE(now.next().ok());
  BatchStream following(windows_of(1), {.batch_size = 100, .prefetch_batches = 1, .begins_early = true});
  while (!following.is_ready()) std::this_thread::yield();
  while (const auto batch = now.next().ValueOrDie()) ASSERT_FALSE(following.is_near_end());
  EXPECT_LE(source->all_reads(), 20 + 2);  // one that is given, one that is prefetched
  following.read();
  EXPECT_EQ(rows_of(following), 2000);
  EXPECT_EQ(source->all_reads(), 40);
}

TEST(Windows, WhatIsBegunEarlyIsReadOnceAlthoughTheRoomIsShort) {
  const auto source = std::make_shared<CountingReads>(numbered_chunks(60, 1000));
  const auto later = std::make_shared<CountingReads>(numbered_chunks(60, 1000));
  const OrderOptions mixed{.shuffle = Shuffle::rows, .seed = 1, .window_bytes = 4 * 8000};
  const auto pool = std::make_shared<ReadPool>(2, 10 * 8000);
  RowStream running(std::make_shared<Windows>(source, EpochOrder(source->chunks(), mixed), pool));
  ASSERT_EQ((*running.next(100))->num_rows(), 100);  // before the other begins, which would have all the room now
  BatchStream following(std::make_shared<Windows>(later, EpochOrder(later->chunks(), mixed), pool),
                        {.batch_size = 100, .prefetch_batches = 1, .begins_early = true});
  EXPECT_EQ(all_of(running, 100).size(), 59'900u);
  following.read();
  EXPECT_EQ(rows_of(following), 60'000);
  EXPECT_EQ(source->all_reads(), 60);
  EXPECT_EQ(later->all_reads(), 60);
}

TEST(Windows, WhatIsBegunEarlyMakesRoomForWhatIsRead) {
  const auto source = std::make_shared<CountingReads>(numbered_chunks(20, 100));
  const auto later = std::make_shared<CountingReads>(numbered_chunks(20, 100));
  const auto pool = std::make_shared<ReadPool>(1, 5 * 800);
  const auto windows_of = [&](const std::shared_ptr<CountingReads>& one) {
    return std::make_shared<Windows>(one, EpochOrder(one->chunks(), {}), pool);
  };
  BatchStream following(windows_of(later), {.batch_size = 100, .prefetch_batches = 1, .begins_early = true});
  while (later->all_reads() < 2) std::this_thread::yield();
  RowStream running(windows_of(source));
  ASSERT_EQ((*running.next(50))->num_rows(), 50);
  while (source->all_reads() < 3) std::this_thread::yield();  // beside two chunks of batches
  EXPECT_EQ(all_of(running, 50).size(), 1950u);
  EXPECT_EQ(source->all_reads(), 20);
  EXPECT_LE(pool->ledger()->peak(), 5 * 800);
  following.read();
  EXPECT_EQ(rows_of(following), 2000);
}

TEST(Windows, WhatIsBegunEarlyCanEndWithoutRoom) {
  const auto source = numbered_chunks(3, 100);
  const auto pool = std::make_shared<ReadPool>(1, 800);
  const auto windows = std::make_shared<Windows>(source, EpochOrder(source->chunks(), {}), pool);
  RowStream running(windows);
  ASSERT_EQ((*running.next(50))->num_rows(), 50);
  const auto later = std::make_shared<Windows>(source, EpochOrder(source->chunks(), {}), pool);
  {
    const BatchStream begun(later, {.prefetch_batches = 1, .begins_early = true});
  }
  EXPECT_EQ(all_of(running, 50).size(), 250u);
}

// Numbers in buffers of megabytes, as the decoders of tensors make them.
class LargeChunks : public Source {
 public:
  arrow::Result<std::shared_ptr<arrow::Schema>> schema() const override {
    return arrow::schema({arrow::field("row", arrow::int64())});
  }
  const std::vector<ChunkSize>& chunks() const override { return chunks_; }
  bool counts_rows() const override { return true; }
  uint64_t fingerprint() const override { return 1; }
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> read(int64_t chunk, uint64_t) const override {
    ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> bytes,
                          arrow::AllocateBuffer(chunks_[0].bytes, reading_memory()));
    std::memset(bytes->mutable_data(), static_cast<int>(chunk), static_cast<size_t>(bytes->size()));
    const auto numbers = std::make_shared<arrow::Int64Array>(chunks_[0].rows, std::move(bytes));
    ARROW_ASSIGN_OR_RAISE(const auto all, schema());
    return arrow::RecordBatch::Make(all, chunks_[0].rows, {numbers});
  }

 private:
  static constexpr int64_t kRows = 300'000;
  const std::vector<ChunkSize> chunks_{4, {.rows = kRows, .bytes = kRows * 8}};
};

TEST(Windows, WhatOnlyABatchHoldsIsCountedUntilItGoes) {
  const auto source = std::make_shared<LargeChunks>();
  const auto has_room = [](Ledger& ledger, int64_t bytes) {
    const std::lock_guard lock(ledger.mutex());
    return ledger.has_room(bytes);
  };
  for (const Shuffle shuffle : {Shuffle::none, Shuffle::rows}) {
    auto pool = std::make_shared<ReadPool>(2, 100'000'000);
    const std::shared_ptr<Ledger> ledger = pool->ledger();
    const int64_t budget = ledger->budget();
    auto stream = std::make_unique<RowStream>(
        std::make_shared<Windows>(source, EpochOrder(source->chunks(), {.shuffle = shuffle}), std::move(pool)));
    ASSERT_EQ((*stream->next(1000))->num_rows(), 1000);
    ASSERT_EQ((*stream->next(600'000))->num_rows(), 600'000);
    std::shared_ptr<arrow::RecordBatch> batch = *stream->next(1000);
    stream.reset();
    EXPECT_EQ(ledger->held(), 0);
    // A mixed batch holds the rows that were mixed together, another one the chunk.
    EXPECT_EQ(has_room(*ledger, budget - 2'200'000), shuffle == Shuffle::rows);
    EXPECT_TRUE(has_room(*ledger, budget / 4 * 3));
    EXPECT_LT(kept_pages()->bytes(), 5 * 2'400'000) << "what only a store keeps goes with its pool";
    batch.reset();
    EXPECT_EQ(kept_pages()->bytes(), 0);
    EXPECT_TRUE(has_room(*ledger, budget));
  }
}

// What an error holds, as the exception of a function holds what it was called with.
struct HoldsRoom : arrow::StatusDetail {
  explicit HoldsRoom(Ledger::Reservation held) : room(std::move(held)) {}
  const char* type_id() const override { return "HoldsRoom"; }
  std::string ToString() const override { return "room"; }
  const Ledger::Reservation room;
};

class FailingChunks : public LargeChunks {
 public:
  explicit FailingChunks(std::shared_ptr<Ledger> ledger) : ledger_(std::move(ledger)) {}
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> read(int64_t, uint64_t) const override {
    return arrow::Status::Invalid("bad rows").WithDetail(std::make_shared<HoldsRoom>(Ledger::reserve(ledger_, 1000)));
  }

 private:
  const std::shared_ptr<Ledger> ledger_;
};

TEST(Windows, AnErrorGoesWithoutTheLock) {
  auto pool = std::make_shared<ReadPool>(2, 100'000'000);
  const std::shared_ptr<Ledger> ledger = pool->ledger();
  const auto source = std::make_shared<FailingChunks>(ledger);
  {
    RowStream stream(std::make_shared<Windows>(source, EpochOrder(source->chunks(), {}), std::move(pool)));
    EXPECT_TRUE(stream.next(1000).status().IsInvalid());
  }
  EXPECT_EQ(ledger->held(), 0);
}

}  // namespace
}  // namespace paceline::data
