#include "paceline/data/source/combined.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "paceline/data/executor/batch_stream.h"
#include "paceline/data/source/shared_reads.h"
#include "paceline/data/testing_internal.h"

namespace paceline::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The numbers from `first` on, in chunks of 7.
std::shared_ptr<const Source> numbers_from(int64_t first, int64_t rows) {
  arrow::RecordBatchVector batches = {numbers_of({})};
  for (int64_t done = 0; done < rows; done += 7) {
    std::vector<int64_t> values(static_cast<size_t>(std::min<int64_t>(7, rows - done)));
    std::iota(values.begin(), values.end(), first + done);
    batches.push_back(numbers_of(values));
  }
  return memory_source(batches[0]->schema(), batches).ValueOrDie();
}

std::vector<int64_t> rows_of(const Source& source, uint64_t key = 0, int column = 0) {
  std::vector<int64_t> all;
  for (size_t chunk = 0; chunk < source.chunks().size(); ++chunk) {
    const auto batch = source.read(static_cast<int64_t>(chunk), key).ValueOrDie();
    EXPECT_EQ(batch->num_rows(), source.chunks()[chunk].rows);
    const auto values = values_of(*batch->SelectColumns({column}).ValueOrDie());
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

std::shared_ptr<const Source> mixture(MixStop stop, Shuffle shuffle = Shuffle::none) {
  const OrderOptions order{.shuffle = shuffle, .seed = 3, .window_bytes = 100};
  return interleaved({{numbers_from(0, 60), order}, {numbers_from(1000, 40), order}}, MixOrder({2, 1}, {60, 40}, stop));
}

TEST(Interleaved, TakesTheRowsOfEachInItsOrder) {
  const std::vector<int64_t> rows = rows_of(*mixture(MixStop::all));
  ASSERT_EQ(rows.size(), 100u);
  EXPECT_THAT(std::vector<int64_t>(rows.begin(), rows.begin() + 6), ElementsAre(0, 1000, 1, 2, 1001, 3));
  std::vector<int64_t> sorted = rows;
  std::ranges::sort(sorted);
  EXPECT_EQ(sorted.front(), 0);
  EXPECT_EQ(sorted.back(), 1039);
  EXPECT_EQ(std::ranges::adjacent_find(sorted), sorted.end()) << "each once";
}

TEST(Interleaved, EachSourceIsShuffledAnewInEachEpoch) {
  const auto source = mixture(MixStop::first, Shuffle::rows);
  const std::vector<int64_t> first = rows_of(*source, 1);
  EXPECT_EQ(first, rows_of(*source, 1));
  EXPECT_NE(first, rows_of(*source, 2));
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i] >= 1000, rows_of(*mixture(MixStop::first))[i] >= 1000) << "whose turn it is does not change";
  }
}

TEST(Interleaved, ARepeatedSourceHasAnotherOrderEachTime) {
  const OrderOptions order{.shuffle = Shuffle::rows, .seed = 3};
  const auto source = interleaved({{numbers_from(0, 5), order}, {numbers_from(1000, 40), order}},
                                  MixOrder({1, 1}, {5, 40}, MixStop::repeat));
  std::vector<std::vector<int64_t>> passes(1);
  std::map<int64_t, int> times;
  for (const int64_t row : rows_of(*source)) {
    ++times[row];
    if (row >= 1000) continue;
    if (passes.back().size() == 5) passes.emplace_back();
    passes.back().push_back(row);
  }
  ASSERT_GE(passes.size(), 7u);
  EXPECT_NE(passes[0], passes[1]);
  for (size_t pass = 0; pass + 1 < passes.size(); ++pass) {
    std::ranges::sort(passes[pass]);
    EXPECT_THAT(passes[pass], ElementsAre(0, 1, 2, 3, 4));
  }
  for (int64_t row = 1000; row < 1040; ++row) EXPECT_EQ(times[row], 1);
}

TEST(Interleaved, AStreamGoesOnAtAnyPosition) {
  const auto source = mixture(MixStop::all, Shuffle::rows);
  const EpochOrder order(source->chunks(), {.epoch = 2});
  const auto stream_of = [&](StreamState state) {
    return std::make_unique<BatchStream>(source, order, StreamOptions{}, BatchStreamOptions{.batch_size = 7}, state);
  };
  std::vector<std::vector<int64_t>> batches;
  std::vector<StreamState> states;
  const auto stream = stream_of({});
  for (auto batch = stream->next().ValueOrDie(); batch != nullptr; batch = stream->next().ValueOrDie()) {
    batches.push_back(values_of(*batch));
    states.push_back(stream->state());
  }
  for (size_t i = 0; i + 1 < states.size(); ++i) {
    EXPECT_EQ(values_of(*stream_of(states[i])->next().ValueOrDie()), batches[i + 1]);
  }
}

TEST(Interleaved, AnotherMixtureHasAnotherFingerprint) {
  EXPECT_EQ(mixture(MixStop::all)->fingerprint(), mixture(MixStop::all)->fingerprint());
  EXPECT_NE(mixture(MixStop::all)->fingerprint(), mixture(MixStop::repeat)->fingerprint());
  EXPECT_NE(mixture(MixStop::all)->fingerprint(), mixture(MixStop::all, Shuffle::rows)->fingerprint());
}

TEST(Zipped, PutsRowsSideBySide) {
  const auto source = zipped({{numbers_from(0, 50), {}},
                              {numbers_from(100, 50), {.shuffle = Shuffle::rows, .seed = 1}},
                              {numbers_from(200, 50), {}}})
                          .ValueOrDie();
  EXPECT_THAT(source->schema().ValueOrDie()->field_names(), ElementsAre("row", "row_1", "row_2"));
  EXPECT_EQ(source->read(0, 0).ValueOrDie()->schema()->field_names(), source->schema().ValueOrDie()->field_names());
  EXPECT_EQ(rows_of(*source, 0, 2), rows_of(*numbers_from(200, 50)));
  EXPECT_NE(rows_of(*source, 0, 1), rows_of(*numbers_from(100, 50)));
  EXPECT_THAT(zipped({{numbers_from(0, 5), {}}, {numbers_from(0, 6), {}}}).status().message(),
              HasSubstr("the first has 5, another 6"));
}

// Counts how often each chunk is read.
class CountingSource : public Source {
 public:
  explicit CountingSource(std::shared_ptr<const Source> source) : source_(std::move(source)) {}
  arrow::Result<std::shared_ptr<arrow::Schema>> schema() const override { return source_->schema(); }
  const std::vector<ChunkSize>& chunks() const override { return source_->chunks(); }
  bool counts_rows() const override { return true; }
  uint64_t fingerprint() const override { return 0; }
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> read(int64_t chunk, uint64_t key) const override {
    ++reads;
    return source_->read(chunk, key);
  }
  mutable std::atomic<int> reads = 0;

 private:
  const std::shared_ptr<const Source> source_;
};

TEST(SharedReads, PiecesOfAChunkReadItOnce) {
  const auto counting = std::make_shared<CountingSource>(numbers_from(0, 70));
  const auto chunks = static_cast<int>(counting->chunks().size());
  EXPECT_EQ(rows_of(*repartitioned(counting, 33)), rows_of(*numbers_from(0, 70)));
  EXPECT_LT(counting->reads, chunks) << "the empty chunk is not read, the others are once";
}

}  // namespace
}  // namespace paceline::data
