#include "paceline/data/source/views.h"

#include <arrow/array.h>
#include <arrow/json/from_string.h>
#include <arrow/record_batch.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "paceline/data/source/combined.h"
#include "paceline/data/testing_internal.h"

namespace paceline::data {
namespace {

std::vector<int64_t> all_of(const Source& source) {
  std::vector<int64_t> all;
  for (size_t chunk = 0; chunk < source.chunks().size(); ++chunk) {
    const auto batch = source.read(static_cast<int64_t>(chunk), 0).ValueOrDie();
    EXPECT_EQ(batch->num_rows(), source.chunks()[chunk].rows);
    for (const int64_t value : values_of(*batch)) all.push_back(value);
  }
  return all;
}

TEST(Views, HaveTheRowsOfTheirSources) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    std::mt19937_64 random(seed);
    const auto source = random_source(random);
    const std::vector<int64_t> rows = all_of(*source);
    const auto first = static_cast<int64_t>(random() % (rows.size() + 1));
    const auto count = static_cast<int64_t>(random() % (rows.size() + 10));
    const auto part = range_of(source, first, count);
    const auto end = std::min(rows.size(), static_cast<size_t>(first + count));
    ASSERT_EQ(all_of(*part), std::vector<int64_t>(rows.begin() + first, rows.begin() + static_cast<int64_t>(end)));

    const auto chunks = static_cast<int64_t>(1 + random() % 20);
    const auto pieces = repartitioned(source, chunks);
    ASSERT_EQ(all_of(*pieces), rows);
    ASSERT_EQ(pieces->chunks().size(), std::min(static_cast<size_t>(chunks), rows.size()));
    for (const ChunkSize& chunk : pieces->chunks()) {
      ASSERT_LE(std::abs(chunk.rows - static_cast<int64_t>(rows.size()) / chunks), 1);
    }

    const auto batch = static_cast<int64_t>(1 + random() % 30);
    const auto whole = in_multiples(source, batch);
    ASSERT_EQ(all_of(*whole), rows);
    ASSERT_LE(whole->chunks().size(), source->chunks().size());
    int64_t done = 0;
    for (const ChunkSize& chunk : whole->chunks()) {
      done += chunk.rows;
      ASSERT_TRUE(done % batch == 0 || done == static_cast<int64_t>(rows.size()));
    }

    std::vector<int64_t> twice = rows;
    twice.insert(twice.end(), rows.begin(), rows.end());
    ASSERT_EQ(all_of(*concatenated({source, source})), twice);

    std::vector<int64_t> mixed =
        all_of(*ordered(source, EpochOrder(source->chunks(), {.shuffle = Shuffle::rows,
                                                              .window_bytes = static_cast<int64_t>(random() % 999)})));
    std::ranges::sort(mixed);
    ASSERT_EQ(mixed, rows);
  }
}

std::shared_ptr<const Source> column_of(const char* name, const std::shared_ptr<arrow::DataType>& type,
                                        const char* values) {
  const auto array = arrow::json::ArrayFromJSONString(type, values).ValueOrDie();
  const auto batch = arrow::RecordBatch::Make(arrow::schema({arrow::field(name, type)}), array->length(), {array});
  return memory_source(batch->schema(), {batch}).ValueOrDie();
}

// Otherwise two ranks would have other columns in the same step.
TEST(Views, BlocksOfDifferentSourcesHaveTheSameColumns) {
  const auto numbers = column_of("x", arrow::int64(), "[1, 2]");
  const auto halves = column_of("x", arrow::float64(), "[0.5, 2]");
  const auto others = column_of("y", arrow::int64(), "[3]");
  const OrderOptions order;
  for (const auto& all :
       {concatenated({numbers, halves, others}), interleaved({{numbers, order}, {halves, order}, {others, order}},
                                                             MixOrder({1, 1, 1}, {2, 2, 1}, MixStop::all))}) {
    const auto schema = all->schema().ValueOrDie();
    EXPECT_EQ(schema->ToString(), "x: double\ny: int64");
    for (int64_t chunk = 0; chunk < std::ssize(all->chunks()); ++chunk) {
      EXPECT_TRUE(all->read(chunk, 0).ValueOrDie()->schema()->Equals(schema));
    }
  }
}

TEST(Views, ChunksOfWholeBatchesAreLeftAlone) {
  const auto source =
      memory_source(numbers_of({})->schema(), {numbers_of({1, 2, 3, 4}), numbers_of({5, 6}), numbers_of({7})})
          .ValueOrDie();
  const std::shared_ptr<const Source> shared(source.get(), [](auto*) {});
  EXPECT_EQ(in_multiples(shared, 2), shared);
  EXPECT_NE(in_multiples(shared, 3), shared);
  EXPECT_EQ(in_multiples(shared, 100)->chunks().size(), 1u);
}

TEST(Views, CountOnlyAsFarAsIsWanted) {
  std::mt19937_64 random(1);
  const auto odd = std::make_shared<OddRows>(random_source(random, 100));
  const auto some = counted(odd, 5, 1).ValueOrDie();
  EXPECT_TRUE(some->counts_rows());
  EXPECT_LT(some->chunks().size(), 100u);
  const auto all = counted(odd, 1'000'000, 2).ValueOrDie();
  for (const int64_t value : all_of(*all)) EXPECT_EQ(value % 2, 1);
}

}  // namespace
}  // namespace paceline::data
