#include <arrow/array.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/byte_size.h>

#include "paceline/data/source/source.h"

namespace paceline::data {
namespace {

class MemorySource : public Source {
 public:
  MemorySource(std::shared_ptr<arrow::Schema> schema, std::vector<std::shared_ptr<arrow::RecordBatch>> batches)
      : schema_(std::move(schema)), batches_(std::move(batches)) {
    for (const auto& batch : batches_) {
      chunks_.push_back({.rows = batch->num_rows(),
                         .bytes = static_cast<int64_t>(arrow::util::ReferencedBufferSize(*batch).ValueOr(0)),
                         .file = static_cast<int64_t>(chunks_.size())});
    }
  }

  arrow::Result<std::shared_ptr<arrow::Schema>> schema() const override { return schema_; }
  const std::vector<ChunkSize>& chunks() const override { return chunks_; }
  bool counts_rows() const override { return true; }
  bool has_rows_in_memory() const override { return true; }
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> read(int64_t chunk, uint64_t) const override {
    return batches_[static_cast<size_t>(chunk)];
  }
  uint64_t fingerprint() const override {
    uint64_t print = mix_text(0, schema_->ToString());
    for (const ChunkSize& chunk : chunks_) print = mix(print, static_cast<uint64_t>(chunk.rows));
    return print;
  }

 private:
  const std::shared_ptr<arrow::Schema> schema_;
  const std::vector<std::shared_ptr<arrow::RecordBatch>> batches_;
  std::vector<ChunkSize> chunks_;
};

}  // namespace

arrow::Result<std::unique_ptr<Source>> memory_source(std::shared_ptr<arrow::Schema> schema,
                                                     std::vector<std::shared_ptr<arrow::RecordBatch>> batches) {
  for (size_t i = 0; i < batches.size(); ++i) {
    if (batches[i]->schema()->Equals(*schema, /*check_metadata=*/false)) continue;
    return arrow::Status::Invalid("batch ", i, " has the columns\n", batches[i]->schema()->ToString(), "\nwanted:\n",
                                  schema->ToString());
  }
  return std::make_unique<MemorySource>(std::move(schema), std::move(batches));
}

}  // namespace paceline::data
