#include "paceline/data/executor/row_stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <random>

#include "paceline/data/testing_internal.h"

namespace paceline::data {
namespace {

std::shared_ptr<arrow::RecordBatch> numbers(int64_t first, int64_t rows) {
  std::vector<int64_t> values(static_cast<size_t>(rows));
  std::iota(values.begin(), values.end(), first);
  return numbers_of(values);
}

std::vector<int64_t> rest_of(RowStream& stream, int64_t batch_size) {
  std::vector<int64_t> all;
  while (true) {
    const auto batch = stream.next(batch_size).ValueOrDie();
    if (batch == nullptr) return all;
    for (const int64_t value : values_of(*batch)) all.push_back(value);
  }
}

// The oracle: each row looked up alone.
std::vector<int64_t> expected(const Source& source, const EpochOrder& order) {
  std::vector<int64_t> all;
  for (int64_t position = 0; position < order.rows(); ++position) {
    const RowPlace place = order.at(position);
    all.push_back(values_of(**source.read(place.chunk, 0))[static_cast<size_t>(place.row)]);
  }
  return all;
}

TEST(RowStream, IsTheOrderWhateverThreadsBudgetAndBatches) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    const auto source = random_source(random);
    const EpochOrder order(source->chunks(), {.shuffle = static_cast<Shuffle>(random() % 4),
                                              .seed = static_cast<int64_t>(seed),
                                              .window_bytes = static_cast<int64_t>(random() % 1500)});
    const std::vector<int64_t> wanted = expected(*source, order);
    RowStream stream(
        source, order,
        {.threads = static_cast<int>(random() % 5), .read_ahead_bytes = static_cast<int64_t>(random() % 2000)});
    ASSERT_EQ(rest_of(stream, static_cast<int64_t>(1 + random() % 50)), wanted) << "seed " << seed;
    ASSERT_EQ(stream.position().rows, order.rows());

    const auto position = static_cast<int64_t>(random() % static_cast<uint64_t>(order.rows() + 1));
    RowStream other(source, order, {});
    ASSERT_TRUE(other.skip(position).ok());
    ASSERT_EQ(other.position().rows, position);
    stream.seek(other.position());
    const std::vector<int64_t> tail(wanted.begin() + position, wanted.end());
    ASSERT_EQ(rest_of(stream, 7), tail) << "seed " << seed << " from " << position;
    ASSERT_EQ(rest_of(other, 11), tail) << "seed " << seed << " from " << position;
  }
}

TEST(RowStream, EndsInMidStream) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 50; ++i) {
    const auto source = random_source(random);
    RowStream stream(source, EpochOrder(source->chunks(), {}), {.threads = 3});
    (void)stream.next(5);
  }
}

// Chunks of 800 bytes, which count how many have been read.
class Counting : public Source {
 public:
  explicit Counting(int64_t chunks, int64_t broken = -1) : broken_(broken) {
    for (int64_t chunk = 0; chunk < chunks; ++chunk) chunks_.push_back({.rows = 100, .bytes = 800, .file = chunk});
  }
  arrow::Result<std::shared_ptr<arrow::Schema>> schema() const override { return schema_; }
  const std::vector<ChunkSize>& chunks() const override { return chunks_; }
  bool counts_rows() const override { return true; }
  uint64_t fingerprint() const override { return 0; }
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> read(int64_t chunk, uint64_t) const override {
    ++read_;
    read_.notify_all();
    if (chunk == broken_) return arrow::Status::IOError("chunk ", chunk, " is broken");
    return numbers(chunk * 100, 100);
  }
  int read() const { return read_; }
  void wait_until_read(int count) const {
    for (int now = read_; now < count; now = read_) read_.wait(now);
  }

 private:
  const int64_t broken_;
  const std::shared_ptr<arrow::Schema> schema_ = numbers(0, 0)->schema();
  std::vector<ChunkSize> chunks_;
  mutable std::atomic<int> read_ = 0;
};

TEST(RowStream, ReadsAheadAsFarAsTheBudget) {
  const auto source = std::make_shared<Counting>(20);
  RowStream stream(source, EpochOrder(source->chunks(), {}), {.threads = 4, .read_ahead_bytes = 4 * 800});
  ASSERT_TRUE(stream.next(1).ok());
  source->wait_until_read(4);
  for (int64_t row = 1; row < 1000; ++row) {
    ASSERT_TRUE(stream.next(1).ok());
    // The chunk that is consumed and three more.
    ASSERT_LE(source->read(), (row + 1) / 100 + 4);
  }
  source->wait_until_read(13);
}

TEST(RowStream, AChunkBeyondTheBudgetIsReadAlone) {
  const auto source = std::make_shared<Counting>(5);
  RowStream stream(source, EpochOrder(source->chunks(), {}), {.threads = 4, .read_ahead_bytes = 1});
  EXPECT_EQ(rest_of(stream, 64).size(), 500u);
}

TEST(RowStream, AnErrorComesInItsPlaceAndStays) {
  const auto source = std::make_shared<Counting>(5, /*broken=*/2);
  RowStream stream(source, EpochOrder(source->chunks(), {}), {});
  EXPECT_EQ((*stream.next(200))->num_rows(), 200);
  EXPECT_EQ(stream.next(1).status().message(), "chunk 2 is broken");
  EXPECT_EQ(stream.next(1).status().message(), "chunk 2 is broken");
  EXPECT_EQ(stream.position().rows, 200);
}

// A resumed run reads no chunk before its position.
TEST(RowStream, SkipsWithoutReading) {
  const auto source = std::make_shared<Counting>(100);
  RowStream stream(source, EpochOrder(source->chunks(), {}), {.read_ahead_bytes = 1});
  ASSERT_TRUE(stream.skip(9'850).ok());
  EXPECT_EQ(values_of(**stream.next(1)), std::vector<int64_t>{9'850});
  EXPECT_EQ(source->read(), 1);
}

}  // namespace
}  // namespace paceline::data
