#include "paceline/data/source/range_source.h"

#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <algorithm>

#include "paceline/data/memory/reading_memory.h"
#include "paceline/data/order/permutation.h"
#include "paceline/data/schema/tensor_column_internal.h"

namespace paceline::data {
namespace {

constexpr int64_t kValueBytes = sizeof(int64_t);
constexpr int64_t kMostChunks = int64_t{1} << 24;  // their list is in memory

class RangeSource : public Source {
 public:
  // `values`: numbers of a row.
  RangeSource(int64_t rows, std::shared_ptr<arrow::Field> field, int64_t values, int64_t chunk_rows)
      : rows_(rows), schema_(arrow::schema({std::move(field)})), values_(values), chunk_rows_(chunk_rows) {
    for (int64_t first = 0; first < rows; first += chunk_rows_) {
      const int64_t count = std::min(chunk_rows_, rows - first);
      chunks_.push_back({.rows = count, .bytes = count * values * kValueBytes});
    }
  }

  arrow::Result<std::shared_ptr<arrow::Schema>> schema() const override { return schema_; }
  const std::vector<ChunkSize>& chunks() const override { return chunks_; }
  bool counts_rows() const override { return true; }
  uint64_t fingerprint() const override {
    return mix_text(mix(static_cast<uint64_t>(rows_), static_cast<uint64_t>(chunk_rows_)), schema_->ToString());
  }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> read(int64_t chunk, uint64_t) const override {
    const int64_t rows = chunks_[static_cast<size_t>(chunk)].rows;
    ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> buffer,
                          arrow::AllocateBuffer(rows * values_ * kValueBytes, reading_memory()));
    auto* next = buffer->mutable_data_as<int64_t>();
    for (int64_t row = 0; row < rows; ++row) next = std::fill_n(next, values_, chunk * chunk_rows_ + row);
    const auto numbers = std::make_shared<arrow::Int64Array>(rows * values_, std::move(buffer));
    return arrow::RecordBatch::Make(schema_, rows, {tensor_column(numbers, schema_->field(0)->type(), rows)});
  }

 private:
  const int64_t rows_;
  const std::shared_ptr<arrow::Schema> schema_;
  const int64_t values_;
  const int64_t chunk_rows_;
  std::vector<ChunkSize> chunks_;
};

arrow::Result<std::unique_ptr<Source>> make_range(int64_t rows, std::shared_ptr<arrow::Field> field, int64_t values,
                                                  int64_t chunk_bytes) {
  const int64_t chunk_rows = std::max<int64_t>(1, chunk_bytes / kValueBytes / std::max<int64_t>(values, 1));
  if (rows / chunk_rows < kMostChunks) {
    return std::make_unique<RangeSource>(rows, std::move(field), values, chunk_rows);
  }
  return arrow::Status::Invalid("a range of ", rows, " rows has more than ", kMostChunks, " blocks");
}

}  // namespace

arrow::Result<std::unique_ptr<Source>> range_source(int64_t rows, const std::optional<std::vector<int64_t>>& shape,
                                                    const RangeOptions& options) {
  if (rows < 0) return arrow::Status::Invalid("a range of ", rows, " rows; it must be 0 or more");
  if (options.chunk_bytes <= 0) {
    return arrow::Status::Invalid("chunk_bytes is ", options.chunk_bytes, "; it must be positive");
  }
  if (!shape) return make_range(rows, arrow::field("id", arrow::int64()), 1, options.chunk_bytes);
  ARROW_ASSIGN_OR_RAISE(auto type, tensor_type(arrow::int64(), *shape));
  ARROW_ASSIGN_OR_RAISE(const int64_t values, count_values(*shape));
  return make_range(rows, arrow::field("data", std::move(type)), values, options.chunk_bytes);
}

}  // namespace paceline::data
