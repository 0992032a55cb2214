#include "paceline/data/format/orc_source.h"

#include <arrow/adapters/orc/adapter.h>
#include <arrow/array.h>
#include <arrow/filesystem/filesystem.h>
#include <arrow/io/interfaces.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include "paceline/data/file/file_access_internal.h"
#include "paceline/data/memory/reading_memory.h"
#include "paceline/data/order/permutation.h"
#include "paceline/data/schema/schema_merge_internal.h"
#include "paceline/storage/objects/parallel.h"

namespace paceline::data {
namespace {

using arrow::adapters::orc::ORCFileReader;

constexpr const char* kOrc = "ORC";
// What text takes once decoded, in bytes of its stripe. ORC's footer does not say; columns of numbers are computed.
constexpr int64_t kDecodedPerByte = 4;

struct OrcFile {
  arrow::fs::FileInfo info;
  std::shared_ptr<arrow::Schema> schema;
  std::vector<ChunkSize> stripes;  // without their file
  std::vector<int> fields;         // numbers of those that are read
};

class OrcSource : public Source {
 public:
  OrcSource(std::shared_ptr<arrow::fs::FileSystem> file_system, std::vector<arrow::fs::FileInfo> files)
      : file_system_(std::move(file_system)) {
    for (arrow::fs::FileInfo& file : files) files_.push_back({.info = std::move(file)});
  }

  arrow::Status open(const OrcOptions& options) {
    ARROW_RETURN_NOT_OK(storage::for_each_in_parallel(
        files_.size(), [this](size_t i) { return in_file(kOrc, files_[i].info.path(), read_footer(files_[i])); },
        options.footers_at_once));
    std::vector<std::string> paths;
    std::vector<std::shared_ptr<arrow::Schema>> schemas;
    for (const OrcFile& file : files_) {
      paths.push_back(file.info.path());
      schemas.push_back(file.schema);
    }
    ARROW_ASSIGN_OR_RAISE(schema_, merge_schemas(schemas, paths, options.columns));
    for (size_t i = 0; i < files_.size(); ++i) {
      OrcFile& file = files_[i];
      for (int field = 0; field < file.schema->num_fields(); ++field) {
        if (schema_->GetFieldIndex(file.schema->field(field)->name()) >= 0) file.fields.push_back(field);
      }
      add_chunks(file, static_cast<int64_t>(i));
      fingerprint_ = mix_file(fingerprint_, file.info);
    }
    fingerprint_ = mix_text(fingerprint_, schema_->ToString());
    return arrow::Status::OK();
  }

  arrow::Result<std::shared_ptr<arrow::Schema>> schema() const override { return schema_; }
  const std::vector<ChunkSize>& chunks() const override { return chunks_; }
  bool counts_rows() const override { return true; }
  uint64_t fingerprint() const override { return fingerprint_; }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> read(int64_t chunk, uint64_t) const override {
    const OrcFile& file = files_[static_cast<size_t>(chunks_[static_cast<size_t>(chunk)].file)];
    auto batch = read_stripe(file, stripes_[static_cast<size_t>(chunk)]);
    if (batch.ok()) batch = fit_to_schema(**batch, schema_);
    if (!batch.ok()) return in_file(kOrc, file.info.path(), batch.status());
    return batch;
  }

 private:
  arrow::Result<std::unique_ptr<ORCFileReader>> reader_of(const OrcFile& file) const {
    ARROW_ASSIGN_OR_RAISE(auto input, open_unchanged(*file_system_, file.info));
    return ORCFileReader::Open(std::move(input), reading_memory());
  }

  arrow::Status read_footer(OrcFile& file) const {
    ARROW_ASSIGN_OR_RAISE(const auto reader, reader_of(file));
    ARROW_ASSIGN_OR_RAISE(file.schema, reader->ReadSchema());
    int64_t rows = 0;
    for (int64_t i = 0; i < reader->NumberOfStripes(); ++i) {
      const auto stripe = reader->GetStripeInformation(i);
      // Decoding a stripe that cannot be takes minutes, or all memory.
      if (stripe.offset < 0 || stripe.length < 0 || stripe.num_rows < 0 || stripe.offset > file.info.size() ||
          stripe.length > file.info.size() - stripe.offset || stripe.num_rows > reader->NumberOfRows() - rows) {
        return arrow::Status::IOError("its footer is damaged: stripe ", i, " of ", stripe.num_rows, " rows and ",
                                      stripe.length, " bytes does not fit into it");
      }
      rows += stripe.num_rows;
      file.stripes.push_back({.rows = stripe.num_rows, .bytes = stripe.length});
    }
    return arrow::Status::OK();
  }

  void add_chunks(const OrcFile& file, int64_t number) {
    arrow::FieldVector read;
    for (const int field : file.fields) read.push_back(file.schema->field(field));
    const auto bytes_of_row = fixed_bytes_of_row(*arrow::schema(std::move(read)));
    for (size_t i = 0; i < file.stripes.size(); ++i) {
      ChunkSize chunk = file.stripes[i];
      chunk.file = number;
      chunk.bytes = bytes_of_row ? static_cast<int64_t>(*bytes_of_row * static_cast<double>(chunk.rows))
                                 : chunk.bytes * kDecodedPerByte;
      chunks_.push_back(chunk);
      stripes_.push_back(static_cast<int64_t>(i));
    }
  }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> read_stripe(const OrcFile& file, int64_t stripe) const {
    if (file.fields.empty()) {  // all columns are null
      return arrow::RecordBatch::Make(arrow::schema({}), file.stripes[static_cast<size_t>(stripe)].rows,
                                      arrow::ArrayVector{});
    }
    ARROW_ASSIGN_OR_RAISE(const auto reader, reader_of(file));
    ARROW_ASSIGN_OR_RAISE(auto batch, reader->ReadStripe(stripe, file.fields));
    ARROW_RETURN_NOT_OK(batch->ValidateFull());
    return batch;
  }

  const std::shared_ptr<arrow::fs::FileSystem> file_system_;
  std::vector<OrcFile> files_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<ChunkSize> chunks_;
  std::vector<int64_t> stripes_;  // of each chunk, in its file
  uint64_t fingerprint_ = 0;
};

}  // namespace

arrow::Result<std::unique_ptr<Source>> orc_source(std::shared_ptr<arrow::fs::FileSystem> file_system,
                                                  std::vector<arrow::fs::FileInfo> files, const OrcOptions& options) {
  ARROW_RETURN_NOT_OK(check_files(kOrc, files));
  auto source = std::make_unique<OrcSource>(std::move(file_system), std::move(files));
  ARROW_RETURN_NOT_OK(source->open(options));
  return source;
}

}  // namespace paceline::data
