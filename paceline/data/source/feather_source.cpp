#include "paceline/data/source/feather_source.h"

#include <arrow/array.h>
#include <arrow/filesystem/filesystem.h>
#include <arrow/io/file.h>
#include <arrow/ipc/options.h>
#include <arrow/ipc/reader.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/byte_size.h>

#include <algorithm>

#include "paceline/data/order/permutation.h"
#include "paceline/data/source/file_access_internal.h"
#include "paceline/storage/objects/parallel.h"

namespace paceline::data {
namespace {

constexpr const char* kFeather = "Feather";

struct FeatherFile {
  arrow::fs::FileInfo info;
  std::shared_ptr<arrow::Schema> schema;
  std::vector<int> columns;   // places in the file of the columns that are read, in the source's order
  std::vector<int64_t> rows;  // of each batch
};

class FeatherSource : public Source {
 public:
  FeatherSource(std::shared_ptr<arrow::fs::FileSystem> file_system, std::vector<arrow::fs::FileInfo> files)
      : file_system_(std::move(file_system)) {
    for (arrow::fs::FileInfo& file : files) files_.push_back({.info = std::move(file)});
  }

  arrow::Status open(const FeatherOptions& options) {
    ARROW_RETURN_NOT_OK(storage::for_each_in_parallel(
        files_.size(), [this](size_t i) { return in_file(kFeather, files_[i].info.path(), read_footer(files_[i])); }));
    for (size_t i = 0; i < files_.size(); ++i) {
      FeatherFile& file = files_[i];
      ARROW_RETURN_NOT_OK(in_file(kFeather, file.info.path(), take_schema(file, options)));
      for (size_t batch = 0; batch < file.rows.size(); ++batch) {
        chunks_.push_back({.rows = file.rows[batch], .file = static_cast<int64_t>(i)});
        batches_.push_back(static_cast<int>(batch));
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
    if (!batch.ok()) return in_file(kFeather, file.info.path(), batch.status());
    return batch;
  }

 private:
  // `columns`: places of those that are read, all if there is none.
  arrow::Result<std::shared_ptr<arrow::ipc::RecordBatchFileReader>> reader_of(const FeatherFile& file,
                                                                              const std::vector<int>& columns) const {
    arrow::ipc::IpcReadOptions options = arrow::ipc::IpcReadOptions::Defaults();
    options.use_threads = false;
    options.included_fields = columns;
    ARROW_ASSIGN_OR_RAISE(auto input, open_unchanged(*file_system_, file.info));
    return arrow::ipc::RecordBatchFileReader::Open(input, options);
  }

  bool is_stream(const arrow::fs::FileInfo& file) const {
    constexpr std::string_view kBegin = "\xff\xff\xff\xff";  // where a file has "ARROW1"
    const auto input = open_unchanged(*file_system_, file);
    if (!input.ok()) return false;
    const auto begin = (*input)->ReadAt(0, static_cast<int64_t>(kBegin.size()));
    return begin.ok() && view_of(**begin) == kBegin;
  }

  arrow::Status read_footer(FeatherFile& file) const {
    if (file.info.size() == 0) return arrow::Status::Invalid("it is empty");
    auto opened = reader_of(file, {});
    if (!opened.ok() && is_stream(file.info)) {
      return arrow::Status::Invalid("it is a stream of batches, none of which can be found without those before it; ",
                                    "write it as a file, with pyarrow.ipc.new_file()");
    }
    ARROW_ASSIGN_OR_RAISE(auto reader, std::move(opened));
    file.schema = reader->schema();
    // How many rows a batch has is beside it, not in the footer. Reading one column gives it at the least cost.
    const auto& fields = file.schema->fields();
    if (fields.empty()) return arrow::Status::Invalid("it has no columns");
    const auto has_fixed_size = [](const auto& field) { return arrow::is_fixed_width(field->type()->id()); };
    const auto small = std::ranges::find_if(fields, has_fixed_size);
    const int column = small == fields.end() ? 0 : static_cast<int>(small - fields.begin());
    ARROW_ASSIGN_OR_RAISE(reader, reader_of(file, {column}));
    for (int i = 0; i < reader->num_record_batches(); ++i) {
      ARROW_ASSIGN_OR_RAISE(const auto batch, reader->ReadRecordBatch(i));
      file.rows.push_back(batch->num_rows());
    }
    return arrow::Status::OK();
  }

  // Finds the columns in the file; the first file says what they are.
  arrow::Status take_schema(FeatherFile& file, const FeatherOptions& options) {
    const auto names = options.columns      ? *options.columns
                       : schema_ != nullptr ? schema_->field_names()
                                            : file.schema->field_names();
    if (names.empty()) return arrow::Status::Invalid("no columns are asked for");
    arrow::FieldVector fields;
    for (const std::string& name : names) {
      if (std::ranges::count(names, name) > 1) return arrow::Status::Invalid("two columns are called '", name, "'");
      const std::vector<int> places = file.schema->GetAllFieldIndices(name);
      if (places.size() > 1) return arrow::Status::Invalid("two columns are called '", name, "'");
      if (places.empty()) {
        std::string there;
        for (const auto& field : file.schema->fields()) there += (there.empty() ? "" : ", ") + field->name();
        return arrow::Status::Invalid("it has no column '", name, "'; it has ", there);
      }
      file.columns.push_back(places.front());
      fields.push_back(file.schema->field(places.front()));
    }
    if (schema_ == nullptr) schema_ = arrow::schema(fields);
    for (size_t i = 0; i < fields.size(); ++i) {
      const auto& wanted = schema_->field(static_cast<int>(i))->type();
      if (fields[i]->type()->Equals(*wanted)) continue;
      return arrow::Status::Invalid("its column '", names[i], "' is ", fields[i]->type()->ToString(), "; in ",
                                    files_.front().info.path(), " it is ", wanted->ToString());
    }
    return arrow::Status::OK();
  }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> read_batch(const FeatherFile& file, int number) const {
    ARROW_ASSIGN_OR_RAISE(const auto reader, reader_of(file, file.columns));
    ARROW_ASSIGN_OR_RAISE(const auto batch, reader->ReadRecordBatch(number));
    // They stand in the file's order.
    arrow::ArrayVector arrays;
    for (const std::string& name : schema_->field_names()) arrays.push_back(batch->GetColumnByName(name));
    auto ordered = arrow::RecordBatch::Make(schema_, batch->num_rows(), std::move(arrays));
    ARROW_RETURN_NOT_OK(ordered->ValidateFull());  // a damaged file would be read beyond its end
    return ordered;
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
  std::vector<int> batches_;  // of each chunk, in its file
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
