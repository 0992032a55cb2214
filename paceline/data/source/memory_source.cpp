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

  const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }
  const std::vector<ChunkSize>& chunks() const override { return chunks_; }
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> read(int64_t chunk) const override {
    return batches_[static_cast<size_t>(chunk)];
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
