#include "paceline/data/format/numpy_source.h"

#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/builder.h>
#include <arrow/filesystem/filesystem.h>
#include <arrow/io/interfaces.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <algorithm>

#include "paceline/data/file/file_access_internal.h"
#include "paceline/data/format/numpy_header_internal.h"
#include "paceline/data/order/permutation.h"
#include "paceline/data/schema/tensor_column_internal.h"
#include "paceline/storage/objects/parallel.h"

namespace paceline::data {
namespace {

constexpr const char* kNumpy = "NumPy";
// No bytes of the file bound how many there are, and each chunk of them takes memory.
constexpr int64_t kMostEmptyRows = int64_t{1} << 31;

struct NumpyFile {
  arrow::fs::FileInfo info;
  int64_t data_begin = 0;
  int64_t rows = 0;
  std::shared_ptr<arrow::DataType> row_type;
  std::shared_ptr<arrow::DataType> value_type;
  int64_t row_values = 0;
  int64_t row_bytes = 0;
};

class NumpySource : public Source {
 public:
  NumpySource(std::shared_ptr<arrow::fs::FileSystem> file_system, std::vector<arrow::fs::FileInfo> files)
      : file_system_(std::move(file_system)) {
    for (arrow::fs::FileInfo& file : files) files_.push_back({.info = std::move(file)});
  }

  arrow::Status open(int64_t chunk_bytes) {
    if (chunk_bytes <= 0) return arrow::Status::Invalid("chunk_bytes is ", chunk_bytes, "; it must be positive");
    ARROW_RETURN_NOT_OK(storage::for_each_in_parallel(files_.size(), [this](size_t file) {
      return in_file(kNumpy, files_[file].info.path(), read_header(files_[file]));
    }));
    const NumpyFile& first = files_.front();
    for (size_t i = 0; i < files_.size(); ++i) {
      const NumpyFile& file = files_[i];
      if (!file.row_type->Equals(*first.row_type)) {
        return in_file(kNumpy, file.info.path(),
                       arrow::Status::Invalid("its rows are ", file.row_type->ToString(), "; in ", first.info.path(),
                                              " they are ", first.row_type->ToString()));
      }
      const int64_t rows_at_once = std::max<int64_t>(1, chunk_bytes / std::max<int64_t>(1, file.row_bytes));
      for (int64_t row = 0; row < file.rows; row += rows_at_once) {
        const int64_t rows = std::min(rows_at_once, file.rows - row);
        chunks_.push_back({.rows = rows, .bytes = rows * file.row_bytes, .file = static_cast<int64_t>(i)});
        first_rows_.push_back(row);
      }
      fingerprint_ = mix_file(fingerprint_, file.info);
    }
    schema_ = arrow::schema({arrow::field("data", first.row_type)});
    fingerprint_ = mix_text(mix(fingerprint_, chunks_.size()), schema_->ToString());
    return arrow::Status::OK();
  }

  arrow::Result<std::shared_ptr<arrow::Schema>> schema() const override { return schema_; }
  const std::vector<ChunkSize>& chunks() const override { return chunks_; }
  bool counts_rows() const override { return true; }
  uint64_t fingerprint() const override { return fingerprint_; }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> read(int64_t chunk, uint64_t) const override {
    const ChunkSize& size = chunks_[static_cast<size_t>(chunk)];
    const NumpyFile& file = files_[static_cast<size_t>(size.file)];
    auto array = read_rows(file, first_rows_[static_cast<size_t>(chunk)], size.rows);
    if (!array.ok()) return in_file(kNumpy, file.info.path(), array.status());
    return arrow::RecordBatch::Make(schema_, size.rows, {*std::move(array)});
  }

 private:
  arrow::Status read_header(NumpyFile& file) const {
    ARROW_ASSIGN_OR_RAISE(const auto input, open_unchanged(*file_system_, file.info));
    constexpr int64_t kUsually = 4096;  // most headers have 128 bytes
    ARROW_ASSIGN_OR_RAISE(auto bytes, read_exactly(*input, 0, std::min(kUsually, file.info.size())));
    ARROW_ASSIGN_OR_RAISE(file.data_begin, numpy_data_begin(view_of(*bytes).substr(0, kNumpyPrefixBytes)));
    if (file.data_begin > file.info.size()) return arrow::Status::Invalid("its header is cut off");
    if (file.data_begin > bytes->size()) {
      ARROW_ASSIGN_OR_RAISE(bytes, read_exactly(*input, 0, file.data_begin));
    }
    ARROW_ASSIGN_OR_RAISE(NumpyHeader header,
                          parse_numpy_header(view_of(*bytes).substr(0, static_cast<size_t>(file.data_begin))));
    file.rows = header.shape.empty() ? 1 : header.shape.front();
    if (!header.shape.empty()) header.shape.erase(header.shape.begin());
    file.value_type = header.type;
    ARROW_ASSIGN_OR_RAISE(file.row_type, tensor_type(header.type, header.shape));
    ARROW_ASSIGN_OR_RAISE(file.row_values, count_values(header.shape));
    file.row_bytes = file.row_values * header.value_bytes;
    if (file.row_bytes == 0 && file.rows > kMostEmptyRows) {
      return arrow::Status::Invalid("its header says ", file.rows, " rows without values; at most ", kMostEmptyRows,
                                    " are read; is it damaged?");
    }
    const int64_t there = file.info.size() - file.data_begin;
    if (file.row_bytes > 0 && there / file.row_bytes < file.rows) {
      return arrow::Status::Invalid("it is truncated: its header says ", file.rows, " rows of ", file.row_bytes,
                                    " bytes, and ", there, " bytes are there");
    }
    return arrow::Status::OK();
  }

  arrow::Result<std::shared_ptr<arrow::Array>> read_rows(const NumpyFile& file, int64_t first, int64_t rows) const {
    ARROW_ASSIGN_OR_RAISE(const auto input, open_unchanged(*file_system_, file.info));
    ARROW_ASSIGN_OR_RAISE(auto bytes,
                          read_exactly(*input, file.data_begin + first * file.row_bytes, rows * file.row_bytes));
    const int64_t values = rows * file.row_values;
    std::shared_ptr<arrow::Array> numbers;
    if (file.value_type->id() == arrow::Type::BOOL) {
      arrow::BooleanBuilder builder;
      ARROW_RETURN_NOT_OK(builder.AppendValues(bytes->data(), values));
      ARROW_ASSIGN_OR_RAISE(numbers, builder.Finish());
    } else {
      numbers = arrow::MakeArray(arrow::ArrayData::Make(file.value_type, values, {nullptr, std::move(bytes)}, 0));
    }
    return tensor_column(std::move(numbers), file.row_type, rows);
  }

  const std::shared_ptr<arrow::fs::FileSystem> file_system_;
  std::vector<NumpyFile> files_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<ChunkSize> chunks_;
  std::vector<int64_t> first_rows_;  // of each chunk, in its file
  uint64_t fingerprint_ = 0;
};

}  // namespace

arrow::Result<std::unique_ptr<Source>> numpy_source(std::shared_ptr<arrow::fs::FileSystem> file_system,
                                                    std::vector<arrow::fs::FileInfo> files,
                                                    const NumpyOptions& options) {
  ARROW_RETURN_NOT_OK(check_files(kNumpy, files));
  auto source = std::make_unique<NumpySource>(std::move(file_system), std::move(files));
  ARROW_RETURN_NOT_OK(source->open(options.chunk_bytes));
  return source;
}

}  // namespace paceline::data
