// Sources of numbers, for the tests of this folder.
#pragma once

#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "paceline/data/source/source.h"

namespace paceline::data {

/// The column "row" with these numbers.
inline std::shared_ptr<arrow::RecordBatch> numbers_of(const std::vector<int64_t>& values) {
  arrow::Int64Builder builder;
  EXPECT_TRUE(builder.AppendValues(values).ok());
  return arrow::RecordBatch::Make(arrow::schema({arrow::field("row", arrow::int64())}),
                                  static_cast<int64_t>(values.size()), {builder.Finish().ValueOrDie()});
}

inline std::vector<int64_t> values_of(const arrow::RecordBatch& batch) {
  const auto& column = static_cast<const arrow::Int64Array&>(*batch.column(0));
  return {column.raw_values(), column.raw_values() + column.length()};
}

/// Chunks of random sizes, up to 15 or `chunks` of them, with the numbers 0, 1, 2, …
inline std::shared_ptr<const Source> random_source(std::mt19937_64& random, size_t chunks = 0) {
  arrow::RecordBatchVector batches;
  int64_t rows = 0;
  for (size_t chunk = chunks > 0 ? chunks : 1 + random() % 15; chunk > 0; --chunk) {
    std::vector<int64_t> values(random() % 40);
    for (int64_t& value : values) value = rows++;
    batches.push_back(numbers_of(values));
  }
  return memory_source(batches[0]->schema(), batches).ValueOrDie();
}

/// The odd numbers of a source, which it does not count before it has read them.
class OddRows : public Source {
 public:
  explicit OddRows(std::shared_ptr<const Source> source) : source_(std::move(source)) {}
  arrow::Result<std::shared_ptr<arrow::Schema>> schema() const override { return source_->schema(); }
  const std::vector<ChunkSize>& chunks() const override { return source_->chunks(); }
  bool counts_rows() const override { return false; }
  uint64_t fingerprint() const override { return mix(source_->fingerprint(), 1); }
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> read(int64_t chunk, uint64_t key) const override {
    ARROW_ASSIGN_OR_RAISE(const auto batch, source_->read(chunk, key));
    std::vector<int64_t> odd;
    for (const int64_t value : values_of(*batch)) {
      if (value % 2 == 1) odd.push_back(value);
    }
    return numbers_of(odd);
  }

 private:
  const std::shared_ptr<const Source> source_;
};

}  // namespace paceline::data
