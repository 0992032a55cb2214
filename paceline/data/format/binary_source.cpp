#include "paceline/data/format/binary_source.h"

#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/builder.h>
#include <arrow/filesystem/filesystem.h>
#include <arrow/io/interfaces.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/utf8.h>

#include "paceline/data/file/file_access_internal.h"
#include "paceline/data/memory/reading_memory.h"
#include "paceline/data/order/permutation.h"
#include "paceline/storage/objects/parallel.h"

namespace paceline::data {
namespace {

class BinarySource : public Source {
 public:
  BinarySource(std::shared_ptr<arrow::fs::FileSystem> file_system, std::vector<arrow::fs::FileInfo> files,
               const BinaryOptions& options)
      : file_system_(std::move(file_system)), files_(std::move(files)), options_(options) {
    arrow::FieldVector fields = {arrow::field("bytes", arrow::large_binary())};
    if (options_.include_paths) fields.push_back(arrow::field("path", arrow::utf8()));
    schema_ = arrow::schema(std::move(fields));
    for (size_t i = 0; i < files_.size(); ++i) {
      if (chunks_.empty() || chunks_.back().bytes >= options_.chunk_bytes) {
        first_files_.push_back(i);
        chunks_.push_back({.file = static_cast<int64_t>(i)});
      }
      ++chunks_.back().rows;
      chunks_.back().bytes += files_[i].size();
      fingerprint_ = mix_file(fingerprint_, files_[i]);
    }
    fingerprint_ = mix(fingerprint_, chunks_.size());
    fingerprint_ = mix_text(fingerprint_, schema_->ToString());
  }

  arrow::Result<std::shared_ptr<arrow::Schema>> schema() const override { return schema_; }
  const std::vector<ChunkSize>& chunks() const override { return chunks_; }
  bool counts_rows() const override { return true; }
  uint64_t fingerprint() const override { return fingerprint_; }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> read(int64_t chunk, uint64_t) const override {
    const size_t first = first_files_[static_cast<size_t>(chunk)];
    const int64_t rows = chunks_[static_cast<size_t>(chunk)].rows;
    const int64_t bytes = chunks_[static_cast<size_t>(chunk)].bytes;
    ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> offsets,
                          arrow::AllocateBuffer((rows + 1) * static_cast<int64_t>(sizeof(int64_t)), reading_memory()));
    ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> values, arrow::AllocateBuffer(bytes, reading_memory()));
    auto* const offset = offsets->mutable_data_as<int64_t>();
    offset[0] = 0;
    for (int64_t row = 0; row < rows; ++row) {
      offset[row + 1] = offset[row] + files_[first + static_cast<size_t>(row)].size();
    }
    // Each file goes to where its row is.
    ARROW_RETURN_NOT_OK(storage::for_each_in_parallel(static_cast<size_t>(rows), [&](size_t row) {
      const arrow::fs::FileInfo& file = files_[first + row];
      return in_file("binary", file.path(), read_file(file, values->mutable_data() + offset[row]));
    }));
    arrow::ArrayVector arrays = {std::make_shared<arrow::LargeBinaryArray>(rows, offsets, values)};
    if (options_.include_paths) {
      arrow::StringBuilder paths;
      for (int64_t row = 0; row < rows; ++row) {
        ARROW_RETURN_NOT_OK(paths.Append(files_[first + static_cast<size_t>(row)].path()));
      }
      ARROW_ASSIGN_OR_RAISE(auto array, paths.Finish());
      arrays.push_back(std::move(array));
    }
    return arrow::RecordBatch::Make(schema_, rows, std::move(arrays));
  }

 private:
  arrow::Status read_file(const arrow::fs::FileInfo& file, uint8_t* to) const {
    ARROW_ASSIGN_OR_RAISE(const auto input, open_unchanged(*file_system_, file));
    if (file.size() == 0) return arrow::Status::OK();
    ARROW_ASSIGN_OR_RAISE(const int64_t bytes, input->ReadAt(0, file.size(), to));
    if (bytes == file.size()) return arrow::Status::OK();
    return arrow::Status::IOError("got ", bytes, " of its ", file.size(), " bytes");
  }

  const std::shared_ptr<arrow::fs::FileSystem> file_system_;
  const std::vector<arrow::fs::FileInfo> files_;
  const BinaryOptions options_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<ChunkSize> chunks_;
  std::vector<size_t> first_files_;  // of each chunk
  uint64_t fingerprint_ = 0;
};

}  // namespace

arrow::Result<std::unique_ptr<Source>> binary_source(std::shared_ptr<arrow::fs::FileSystem> file_system,
                                                     std::vector<arrow::fs::FileInfo> files,
                                                     const BinaryOptions& options) {
  ARROW_RETURN_NOT_OK(check_files("binary", files));
  arrow::util::InitializeUTF8();
  for (const arrow::fs::FileInfo& file : files) {
    if (!options.include_paths || arrow::util::ValidateUTF8(file.path())) continue;
    return arrow::Status::Invalid("the path ", file.path(), " is not UTF-8; rename it, or leave out include_paths");
  }
  return std::make_unique<BinarySource>(std::move(file_system), std::move(files), options);
}

}  // namespace paceline::data
