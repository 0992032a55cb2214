#include "paceline/data/format/feather_source.h"

#include <arrow/array.h>
#include <arrow/filesystem/filesystem.h>
#include <arrow/io/interfaces.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/byte_size.h>

#include <algorithm>

#include "paceline/data/file/file_access_internal.h"
#include "paceline/data/format/ipc_batches_internal.h"
#include "paceline/data/order/permutation.h"
#include "paceline/data/schema/schema_merge_internal.h"
#include "paceline/storage/objects/parallel.h"

namespace paceline::data {
namespace {

constexpr const char* kFeather = "Feather";

struct FeatherFile {
  arrow::fs::FileInfo info;
  IpcBatches batches;
  std::vector<int> columns;  // numbers in the file of those that are read
};

class FeatherSource : public Source {
 public:
  FeatherSource(std::shared_ptr<arrow::fs::FileSystem> file_system, std::vector<arrow::fs::FileInfo> files)
      : file_system_(std::move(file_system)) {
    for (arrow::fs::FileInfo& file : files) files_.push_back({.info = std::move(file)});
  }

  arrow::Status open(const FeatherOptions& options) {
    if (options.columns && options.columns->empty()) return arrow::Status::Invalid("no columns are asked for");
    ARROW_RETURN_NOT_OK(storage::for_each_in_parallel(
        files_.size(), [this](size_t i) { return in_file(kFeather, files_[i].info.path(), find_batches(files_[i])); }));
    std::vector<std::string> paths;
    std::vector<std::shared_ptr<arrow::Schema>> schemas;
    for (const FeatherFile& file : files_) {
      paths.push_back(file.info.path());
      schemas.push_back(file.batches.schema);
    }
    ARROW_ASSIGN_OR_RAISE(schema_, merge_schemas(schemas, paths, options.columns));
    for (size_t i = 0; i < files_.size(); ++i) {
      FeatherFile& file = files_[i];
      for (int field = 0; field < file.batches.schema->num_fields(); ++field) {
        if (schema_->GetFieldIndex(file.batches.schema->field(field)->name()) >= 0) file.columns.push_back(field);
      }
      for (size_t batch = 0; batch < file.batches.rows.size(); ++batch) {
        chunks_.push_back({.rows = file.batches.rows[batch], .file = static_cast<int64_t>(i)});
        batches_.push_back(static_cast<int64_t>(batch));
      }
      fingerprint_ = mix_file(fingerprint_, file.info);
    }
    fingerprint_ = mix_text(fingerprint_, schema_->ToString());
    return estimate_bytes();
  }

  arrow::Result<std::shared_ptr<arrow::Schema>> schema() const override { return schema_; }
  const std::vector<ChunkSize>& chunks() const override { return chunks_; }
  bool counts_rows() const override { return true; }
  uint64_t fingerprint() const override { return fingerprint_; }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> read(int64_t chunk, uint64_t) const override {
    const FeatherFile& file = files_[static_cast<size_t>(chunks_[static_cast<size_t>(chunk)].file)];
    auto batch = read_batch(file, batches_[static_cast<size_t>(chunk)]);
    if (batch.ok()) batch = fit_to_schema(**batch, schema_);
    if (!batch.ok()) return in_file(kFeather, file.info.path(), batch.status());
    return batch;
  }

 private:
  arrow::Status find_batches(FeatherFile& file) const {
    if (file.info.size() == 0) return arrow::Status::Invalid("it is empty");
    ARROW_ASSIGN_OR_RAISE(const auto input, open_unchanged(*file_system_, file.info));
    ARROW_ASSIGN_OR_RAISE(file.batches, find_ipc_batches(input));
    return arrow::Status::OK();
  }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> read_batch(const FeatherFile& file, int64_t number) const {
    if (file.columns.empty()) {  // all columns are null
      return arrow::RecordBatch::Make(arrow::schema({}), file.batches.rows[static_cast<size_t>(number)],
                                      arrow::ArrayVector{});
    }
    ARROW_ASSIGN_OR_RAISE(const auto input, open_unchanged(*file_system_, file.info));
    ARROW_ASSIGN_OR_RAISE(auto batch, read_ipc_batch(input, file.batches, number, file.columns));
    ARROW_RETURN_NOT_OK(batch->ValidateFull());  // a damaged file would be read beyond its end
    return batch;
  }

  // Of all batches by the rows of the first: batches do not say how large they are once decompressed.
  arrow::Status estimate_bytes() {
    const auto first = std::ranges::find_if(chunks_, [](const ChunkSize& chunk) { return chunk.rows > 0; });
    if (first == chunks_.end()) return arrow::Status::OK();
    ARROW_ASSIGN_OR_RAISE(const auto batch, read(first - chunks_.begin(), 0));
    const auto bytes = static_cast<double>(arrow::util::ReferencedBufferSize(*batch).ValueOr(0));
    const double row_bytes = bytes / static_cast<double>(batch->num_rows());
    for (ChunkSize& chunk : chunks_) chunk.bytes = static_cast<int64_t>(static_cast<double>(chunk.rows) * row_bytes);
    return arrow::Status::OK();
  }

  const std::shared_ptr<arrow::fs::FileSystem> file_system_;
  std::vector<FeatherFile> files_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<ChunkSize> chunks_;
  std::vector<int64_t> batches_;  // of each chunk, in its file
  uint64_t fingerprint_ = 0;
};

}  // namespace

arrow::Result<std::unique_ptr<Source>> feather_source(std::shared_ptr<arrow::fs::FileSystem> file_system,
                                                      std::vector<arrow::fs::FileInfo> files,
                                                      const FeatherOptions& options) {
  ARROW_RETURN_NOT_OK(check_files(kFeather, files));
  auto source = std::make_unique<FeatherSource>(std::move(file_system), std::move(files));
  ARROW_RETURN_NOT_OK(source->open(options));
  return source;
}

}  // namespace paceline::data
