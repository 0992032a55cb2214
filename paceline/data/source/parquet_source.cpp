#include "paceline/data/source/parquet_source.h"

#include <arrow/array.h>
#include <arrow/filesystem/filesystem.h>
#include <arrow/io/interfaces.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>

#include <algorithm>

#include "paceline/data/source/decode_leaf_internal.h"
#include "paceline/storage/objects/parallel.h"

namespace paceline::data {
namespace {

// A column of the schema, in one file.
struct Column {
  std::vector<int> leaves;  // its numbers among the file's leaf columns
};

struct File {
  arrow::fs::FileInfo info;
  std::shared_ptr<parquet::FileMetaData> footer;
  std::vector<Column> columns;  // one for each field of the schema
};

arrow::Status in_file(const std::string& path, const arrow::Status& status) {
  return status.WithMessage("cannot read the Parquet file ", path, ": ", status.message());
}

void add_leaves(const parquet::arrow::SchemaField& field, std::vector<int>& leaves) {
  if (field.column_index >= 0) leaves.push_back(field.column_index);
  for (const parquet::arrow::SchemaField& child : field.children) add_leaves(child, leaves);
}

parquet::ArrowReaderProperties reader_properties() {
  parquet::ArrowReaderProperties properties(/*use_threads=*/false);
  properties.set_pre_buffer(false);  // it would hold what it has read beyond any budget
  return properties;
}

class ParquetSource : public Source {
 public:
  ParquetSource(std::shared_ptr<arrow::fs::FileSystem> file_system, std::vector<arrow::fs::FileInfo> files)
      : file_system_(std::move(file_system)) {
    for (arrow::fs::FileInfo& file : files) files_.push_back({.info = std::move(file)});
  }

  arrow::Status open(const ParquetOptions& options) {
    if (files_.empty()) return arrow::Status::Invalid("no Parquet file was given");
    ARROW_RETURN_NOT_OK(storage::for_each_in_parallel(
        files_.size(), [this](size_t file) { return read_footer(files_[file]); }, options.footers_at_once));
    for (size_t file = 0; file < files_.size(); ++file) {
      const arrow::Status status = take_schema(files_[file], options);
      if (!status.ok()) return in_file(files_[file].info.path(), status);
      add_chunks(files_[file], static_cast<int64_t>(file));
    }
    fingerprint_ = mix_text(fingerprint_, schema_->ToString());
    return arrow::Status::OK();
  }

  arrow::Result<std::shared_ptr<arrow::Schema>> schema() const override { return schema_; }
  const std::vector<ChunkSize>& chunks() const override { return chunks_; }
  bool counts_rows() const override { return true; }
  uint64_t fingerprint() const override { return fingerprint_; }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> read(int64_t chunk, uint64_t) const override {
    const File& file = files_[static_cast<size_t>(chunks_[static_cast<size_t>(chunk)].file)];
    auto batch = read_row_group(file, row_groups_[static_cast<size_t>(chunk)]);
    if (!batch.ok()) return in_file(file.info.path(), batch.status());
    return batch;
  }

 private:
  arrow::Result<std::unique_ptr<parquet::ParquetFileReader>> reader_of(const File& file) const {
    ARROW_ASSIGN_OR_RAISE(auto input, file_system_->OpenInputFile(file.info));
    if (file.footer != nullptr) {
      ARROW_ASSIGN_OR_RAISE(const int64_t bytes, input->GetSize());
      if (bytes != file.info.size()) {
        return arrow::Status::IOError("it has changed since the data set was made: it had ", file.info.size(),
                                      " bytes and has ", bytes);
      }
    }
    BEGIN_PARQUET_CATCH_EXCEPTIONS
    return parquet::ParquetFileReader::Open(std::move(input), parquet::default_reader_properties(), file.footer);
    END_PARQUET_CATCH_EXCEPTIONS
  }

  arrow::Status read_footer(File& file) const {
    if (file.info.type() != arrow::fs::FileType::File) {
      const bool is_missing = file.info.type() == arrow::fs::FileType::NotFound;
      return in_file(file.info.path(), arrow::Status::IOError(is_missing ? "it does not exist" : "it is no file"));
    }
    const auto reader = reader_of(file);
    if (!reader.ok()) return in_file(file.info.path(), reader.status());
    file.footer = (*reader)->metadata();
    return arrow::Status::OK();
  }

  // Finds the columns in the file; the first file says what they are.
  arrow::Status take_schema(File& file, const ParquetOptions& options) {
    parquet::arrow::SchemaManifest manifest;
    ARROW_RETURN_NOT_OK(parquet::arrow::SchemaManifest::Make(file.footer->schema(), file.footer->key_value_metadata(),
                                                             reader_properties(), &manifest));
    std::vector<std::string> names;
    if (options.columns) {
      names = *options.columns;
    } else if (schema_ != nullptr) {
      names = schema_->field_names();
    } else {
      for (const auto& field : manifest.schema_fields) names.push_back(field.field->name());
    }
    arrow::FieldVector fields;
    for (const std::string& name : names) {
      const auto& all = manifest.schema_fields;
      const auto found = std::ranges::find(all, name, [](const auto& field) { return field.field->name(); });
      if (found == all.end()) {
        std::string there;
        for (const auto& field : all) there += (there.empty() ? "" : ", ") + field.field->name();
        return arrow::Status::Invalid("it has no column '", name, "'; it has ", there);
      }
      Column column;
      add_leaves(*found, column.leaves);
      file.columns.push_back(std::move(column));
      fields.push_back(found->field);
      if (std::ranges::count(names, name) > 1) return arrow::Status::Invalid("two columns are called '", name, "'");
    }
    if (schema_ == nullptr) {
      schema_ = arrow::schema(std::move(fields));
      return arrow::Status::OK();
    }
    for (size_t i = 0; i < fields.size(); ++i) {
      const std::shared_ptr<arrow::Field>& wanted = schema_->field(static_cast<int>(i));
      if (fields[i]->type()->Equals(*wanted->type())) continue;
      return arrow::Status::Invalid("its column '", names[i], "' is ", fields[i]->type()->ToString(), "; in ",
                                    files_.front().info.path(), " it is ", wanted->type()->ToString());
    }
    return arrow::Status::OK();
  }

  void add_chunks(const File& file, int64_t number) {
    fingerprint_ = mix(mix_text(fingerprint_, file.info.path()), static_cast<uint64_t>(file.info.size()));
    fingerprint_ = mix(fingerprint_, static_cast<uint64_t>(file.info.mtime().time_since_epoch().count()));
    for (int group = 0; group < file.footer->num_row_groups(); ++group) {
      const auto metadata = file.footer->RowGroup(group);
      ChunkSize chunk{.rows = metadata->num_rows(), .file = number};
      for (const Column& column : file.columns) {
        // Not the row group's own total, in which some writers count compressed bytes.
        for (const int leaf : column.leaves) chunk.bytes += metadata->ColumnChunk(leaf)->total_uncompressed_size();
      }
      chunks_.push_back(chunk);
      row_groups_.push_back(group);
    }
  }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> read_row_group(const File& file, int group) const {
    ARROW_ASSIGN_OR_RAISE(std::unique_ptr<parquet::ParquetFileReader> reader, reader_of(file));
    BEGIN_PARQUET_CATCH_EXCEPTIONS
    const std::shared_ptr<parquet::RowGroupReader> row_group = reader->RowGroup(group);
    const int64_t rows = row_group->metadata()->num_rows();
    arrow::ArrayVector arrays(file.columns.size());
    std::vector<int> others;  // leaves of columns that parquet::arrow reads
    for (size_t i = 0; i < arrays.size(); ++i) {
      const Column& column = file.columns[i];
      const arrow::Field& field = *schema_->field(static_cast<int>(i));
      if (column.leaves.size() == 1 && is_plain_leaf(field, *file.footer->schema()->Column(column.leaves[0]),
                                                     *row_group->metadata()->ColumnChunk(column.leaves[0]), rows)) {
        ARROW_ASSIGN_OR_RAISE(
            arrays[i], decode_leaf(*row_group, column.leaves[0], field.type(), rows, arrow::default_memory_pool()));
      } else {
        others.insert(others.end(), column.leaves.begin(), column.leaves.end());
      }
    }
    if (!others.empty()) ARROW_RETURN_NOT_OK(read_others(std::move(reader), group, others, arrays));
    return arrow::RecordBatch::Make(schema_, rows, std::move(arrays));
    END_PARQUET_CATCH_EXCEPTIONS
  }

  // Puts the columns of these leaves where `arrays` has none.
  static arrow::Status read_others(std::unique_ptr<parquet::ParquetFileReader> reader, int group,
                                   const std::vector<int>& leaves, arrow::ArrayVector& arrays) {
    ARROW_ASSIGN_OR_RAISE(auto arrow_reader, parquet::arrow::FileReader::Make(arrow::default_memory_pool(),
                                                                              std::move(reader), reader_properties()));
    ARROW_ASSIGN_OR_RAISE(const std::shared_ptr<arrow::Table> table, arrow_reader->ReadRowGroup(group, leaves));
    ARROW_ASSIGN_OR_RAISE(const std::shared_ptr<arrow::RecordBatch> batch, table->CombineChunksToBatch());
    int next = 0;  // columns stand in the order in which their leaves were asked for
    for (auto& array : arrays) {
      if (array == nullptr) array = batch->column(next++);
    }
    return arrow::Status::OK();
  }

  const std::shared_ptr<arrow::fs::FileSystem> file_system_;
  std::vector<File> files_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<ChunkSize> chunks_;
  std::vector<int> row_groups_;  // of each chunk, in its file
  uint64_t fingerprint_ = 0;
};

}  // namespace

arrow::Result<std::unique_ptr<Source>> parquet_source(std::shared_ptr<arrow::fs::FileSystem> file_system,
                                                      std::vector<arrow::fs::FileInfo> files,
                                                      const ParquetOptions& options) {
  auto source = std::make_unique<ParquetSource>(std::move(file_system), std::move(files));
  ARROW_RETURN_NOT_OK(source->open(options));
  return source;
}

}  // namespace paceline::data
