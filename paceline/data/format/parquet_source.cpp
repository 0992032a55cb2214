#include "paceline/data/format/parquet_source.h"

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
#include <parquet/size_statistics.h>
#include <parquet/statistics.h>

#include <algorithm>
#include <cmath>

#include "paceline/data/file/file_access_internal.h"
#include "paceline/data/format/column_pages_internal.h"
#include "paceline/data/format/decode_leaf_internal.h"
#include "paceline/data/format/parquet_pruning_internal.h"
#include "paceline/data/memory/reading_memory.h"
#include "paceline/data/order/permutation.h"
#include "paceline/data/schema/ray_tensor_internal.h"
#include "paceline/data/schema/schema_merge_internal.h"
#include "paceline/storage/objects/parallel.h"

namespace paceline::data {
namespace {

// A column of the schema, in one file.
struct ParquetColumn {
  std::vector<int> leaves;               // its numbers among the file's leaf columns; none where the file lacks it
  std::shared_ptr<arrow::Field> stored;  // as parquet::arrow reads it
  std::shared_ptr<arrow::Field> field;   // as tensors
};

constexpr const char* kParquet = "Parquet";
constexpr int64_t kRowsSkippedAtOnce = 4096;
constexpr int64_t kBytesReadAtOnce = int64_t{1} << 20;
constexpr int64_t kBytesOfLocalLook = int64_t{64} << 10;
constexpr int64_t kMostBytesStored = int64_t{1} << 40;  // of a row group, by a file that is not damaged
constexpr double kMostPiecesOfTexts = 16;               // of a row group, whose sizes are not known
constexpr double kMostPieces = 1 << 20;                 // of a row group: who says that there are more is damaged
// From so many on, the bytes of a column are read page by page: they need not be in memory all at once.
constexpr int64_t kLongColumn = int64_t{4} << 20;

struct ParquetFile {
  arrow::fs::FileInfo info;
  std::shared_ptr<parquet::FileMetaData> footer;
  parquet::arrow::SchemaManifest manifest;
  std::vector<ParquetColumn> columns;  // one for each field of the schema
};

void add_leaves(const parquet::arrow::SchemaField& field, std::vector<int>& leaves) {
  if (field.column_index >= 0) leaves.push_back(field.column_index);
  for (const parquet::arrow::SchemaField& child : field.children) add_leaves(child, leaves);
}

// Of texts, once decoded, where it is more than what is stored: as newer writers say, or those of a dictionary as if
// all were as long as the first or the last of the alphabet. What the longer of these two adds is no more than `most`,
// which becomes less by it: that one may be the only long one. 0 for all else.
double bytes_of_texts(const parquet::ColumnChunkMetaData& chunk, double& most) {
  if (chunk.type() != parquet::Type::BYTE_ARRAY) return 0;
  const auto count = static_cast<double>(chunk.num_values());
  const double bytes_of_places = count * sizeof(int32_t);
  if (const auto sizes = chunk.size_statistics(); sizes != nullptr && sizes->unencoded_byte_array_data_bytes) {
    return static_cast<double>(*sizes->unencoded_byte_array_data_bytes) + bytes_of_places;
  }
  if (!chunk.has_dictionary_page() || !chunk.is_stats_set()) return bytes_of_places;
  const auto statistics = chunk.statistics();
  const auto* texts = dynamic_cast<const parquet::ByteArrayStatistics*>(statistics.get());
  if (texts == nullptr || !texts->HasMinMax()) return bytes_of_places;
  const auto [shorter, longer] = std::minmax(texts->min().len, texts->max().len);
  const double more = std::min((longer - shorter) * count, most);
  most -= more;
  return shorter * count + more + bytes_of_places;
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
    if (options.bytes_of_chunk < 1) return arrow::Status::Invalid("chunks of ", options.bytes_of_chunk, " bytes");
    ARROW_RETURN_NOT_OK(storage::for_each_in_parallel(
        files_.size(), [this](size_t file) { return read_footer(files_[file]); }, options.footers_at_once));
    std::vector<std::string> paths;
    std::vector<std::shared_ptr<arrow::Schema>> schemas;
    for (const ParquetFile& file : files_) {
      paths.push_back(file.info.path());
      arrow::FieldVector fields;
      for (const auto& field : file.manifest.schema_fields) fields.push_back(without_ray_tensor(field.field));
      schemas.push_back(arrow::schema(std::move(fields)));
    }
    ARROW_ASSIGN_OR_RAISE(schema_, merge_schemas(schemas, paths, options.columns));
    std::shared_ptr<arrow::Schema> all = schema_;
    arrow::compute::Expression filter = arrow::compute::literal(true);
    if (options.filter) {
      ARROW_ASSIGN_OR_RAISE(all, merge_schemas(schemas, paths, std::nullopt));
      ARROW_ASSIGN_OR_RAISE(filter, bind_filter(*options.filter, *all));
      fingerprint_ = mix_text(fingerprint_, options.filter->ToString());
    }
    for (size_t file = 0; file < files_.size(); ++file) {
      find_columns(files_[file]);
      fingerprint_ = mix_file(fingerprint_, files_[file].info);
      const auto may_have_rows = [&](const parquet::RowGroupMetaData& group) {
        return !options.filter || may_pass(filter, *all, files_[file].manifest, group);
      };
      ARROW_RETURN_NOT_OK(in_file(kParquet, files_[file].info.path(),
                                  add_row_groups(static_cast<int64_t>(file), may_have_rows, options.bytes_of_chunk)));
    }
    fingerprint_ = mix(mix_text(fingerprint_, schema_->ToString()), static_cast<uint64_t>(options.bytes_of_chunk));
    return arrow::Status::OK();
  }

  arrow::Result<std::shared_ptr<arrow::Schema>> schema() const override { return schema_; }
  const std::vector<ChunkSize>& chunks() const override { return chunks_; }
  bool counts_rows() const override { return true; }
  uint64_t fingerprint() const override { return fingerprint_; }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> read(int64_t chunk, uint64_t) const override {
    const ParquetFile& file = files_[static_cast<size_t>(chunks_[static_cast<size_t>(chunk)].file)];
    const Part& part = parts_[static_cast<size_t>(chunk)];
    auto batch = read_rows(file, part);
    if (batch.ok()) batch = fit_to_schema(**batch, schema_);
    if (!batch.ok()) return in_file(kParquet, file.info.path(), batch.status());
    return batch;
  }

 private:
  static parquet::ReaderProperties properties(bool page_by_page) {
    parquet::ReaderProperties properties(reading_memory());
    if (page_by_page) {  // instead of whole columns of the row group
      properties.enable_buffered_stream();
      properties.set_buffer_size(kBytesReadAtOnce);
    }
    return properties;
  }

  static arrow::Result<std::unique_ptr<parquet::ParquetFileReader>> reader_of(
      std::shared_ptr<arrow::io::RandomAccessFile> input, const ParquetFile& file, bool page_by_page) {
    BEGIN_PARQUET_CATCH_EXCEPTIONS
    return parquet::ParquetFileReader::Open(std::move(input), properties(page_by_page), file.footer);
    END_PARQUET_CATCH_EXCEPTIONS
  }

  arrow::Status read_footer(ParquetFile& file) const {
    const auto input = open_unchanged(*file_system_, file.info);
    if (!input.ok()) return in_file(kParquet, file.info.path(), input.status());
    const auto reader = reader_of(*input, file, /*page_by_page=*/false);
    if (!reader.ok()) return in_file(kParquet, file.info.path(), reader.status());
    file.footer = (*reader)->metadata();
    const arrow::Status status = parquet::arrow::SchemaManifest::Make(
        file.footer->schema(), file.footer->key_value_metadata(), reader_properties(), &file.manifest);
    return in_file(kParquet, file.info.path(), status);
  }

  void find_columns(ParquetFile& file) const {
    for (const auto& field : schema_->fields()) {
      const auto found = std::ranges::find(file.manifest.schema_fields, field->name(),
                                           [](const auto& there) { return there.field->name(); });
      ParquetColumn column;
      if (found != file.manifest.schema_fields.end()) {
        add_leaves(*found, column.leaves);
        column.stored = found->field;
        column.field = without_ray_tensor(found->field);
      }
      file.columns.push_back(std::move(column));
    }
  }

  // Damaged ones are an error.
  template <typename Predicate>
  arrow::Status add_row_groups(int64_t file, const Predicate& may_have_rows, int64_t bytes_of_chunk) {
    BEGIN_PARQUET_CATCH_EXCEPTIONS
    const parquet::FileMetaData& footer = *files_[static_cast<size_t>(file)].footer;
    for (int group = 0; group < footer.num_row_groups(); ++group) {
      const auto metadata = footer.RowGroup(group);
      if (may_have_rows(*metadata)) ARROW_RETURN_NOT_OK(add_chunks(file, group, *metadata, bytes_of_chunk));
    }
    return arrow::Status::OK();
    END_PARQUET_CATCH_EXCEPTIONS
  }

  arrow::Status add_chunks(int64_t number, int group, const parquet::RowGroupMetaData& metadata,
                           int64_t bytes_of_chunk) {
    const int64_t rows = metadata.num_rows();
    double bytes = 0;
    double most_of_texts = kMostPiecesOfTexts * static_cast<double>(bytes_of_chunk);
    int64_t longest = 0;  // bytes of a column in the file: one is read after the other
    int64_t at_once = 0;  // but for those that parquet::arrow reads
    for (const ParquetColumn& column : files_[static_cast<size_t>(number)].columns) {
      if (column.leaves.empty()) continue;
      for (const int leaf : column.leaves) {
        const int64_t stored = std::max<int64_t>(metadata.ColumnChunk(leaf)->total_compressed_size(), 0);
        longest = std::max(longest, stored);
        if (!tensor_layout(*column.field->type())) at_once += std::min(stored, kMostBytesStored - at_once);
      }
      // Parquet keeps small integers as wider ones, so what it says of them is too much.
      if (const auto fixed = fixed_bytes_of_row(*arrow::schema({column.field}))) {
        bytes += *fixed * static_cast<double>(rows);
        continue;
      }
      // Not the row group's own total, in which some writers count compressed bytes. What stands there once and is
      // meant often (a dictionary) takes more room decoded.
      for (const int leaf : column.leaves) {
        const auto chunk = metadata.ColumnChunk(leaf);
        const auto decoded = static_cast<double>(chunk->num_values()) * parquet::GetTypeByteSize(chunk->type());
        const bool is_wide = chunk->type() != parquet::Type::BOOLEAN && chunk->type() != parquet::Type::BYTE_ARRAY &&
                             chunk->type() != parquet::Type::FIXED_LEN_BYTE_ARRAY;
        bytes += std::max({static_cast<double>(chunk->total_uncompressed_size()), is_wide ? decoded : 0,
                           bytes_of_texts(*chunk, most_of_texts)});
      }
    }
    const double wanted = std::clamp(std::ceil(bytes / static_cast<double>(bytes_of_chunk)), 1.0,
                                     std::max(static_cast<double>(rows), 1.0));
    if (rows < 0 || wanted > kMostPieces) {
      return arrow::Status::Invalid("row group ", group, " says that it has ", rows, " rows of ", bytes,
                                    " bytes; is the file damaged?");
    }
    const auto pieces = static_cast<int64_t>(wanted);
    bytes = std::clamp(bytes, 0.0, kMostPieces * static_cast<double>(bytes_of_chunk));
    longest = std::min(longest, files_[static_cast<size_t>(number)].info.size());  // a damaged file may say anything
    // A request to an object store takes its time: there columns are read whole.
    const bool page_by_page = pieces > 1 || (longest >= kLongColumn && file_system_->type_name() == "local");
    if (page_by_page) longest = std::min(longest, 2 * kBytesReadAtOnce);
    if (pieces == 1 && !page_by_page) {
      longest = std::max(longest, std::min(at_once, files_[static_cast<size_t>(number)].info.size()));
    }
    for (int64_t piece = 0; piece < pieces; ++piece) {
      const auto begin_of = [&](int64_t number_of_piece) {
        return static_cast<int64_t>(static_cast<__int128>(rows) * number_of_piece / pieces);
      };
      const int64_t first = begin_of(piece);
      const RowRange range{.first = first, .rows = begin_of(piece + 1) - first};
      const double part = rows == 0 ? 1 : static_cast<double>(range.rows) / static_cast<double>(rows);
      chunks_.push_back({.rows = range.rows,
                         .bytes = static_cast<int64_t>(bytes * part),
                         .file = number,
                         .bytes_to_read = std::max<int64_t>(longest, 0)});
      parts_.push_back({.group = group, .range = range, .page_by_page = page_by_page});
    }
    return arrow::Status::OK();
  }

  // Of a row group.
  struct Part {
    int group = 0;
    RowRange range;
    bool page_by_page = false;
  };

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> read_rows(const ParquetFile& file, const Part& part) const {
    const auto& [group, range, page_by_page] = part;
    ARROW_ASSIGN_OR_RAISE(const auto input, open_unchanged(*file_system_, file.info));
    ARROW_ASSIGN_OR_RAISE(std::unique_ptr<parquet::ParquetFileReader> reader, reader_of(input, file, page_by_page));
    BEGIN_PARQUET_CATCH_EXCEPTIONS
    const std::shared_ptr<parquet::RowGroupReader> row_group = reader->RowGroup(group);
    RowGroupPages pages{.row_group = *row_group, .file = input, .properties = properties(page_by_page)};
    if (file_system_->type_name() == "local") pages.bytes_of_look = kBytesOfLocalLook;
    pages.is_always_compressed =
        file.footer->writer_version().VersionLt(parquet::ApplicationVersion::PARQUET_CPP_10353_FIXED_VERSION());
    const int64_t all_rows = row_group->metadata()->num_rows();
    const bool is_whole = range.rows == all_rows;
    arrow::FieldVector fields;
    arrow::ArrayVector arrays;
    std::vector<size_t> places;  // in `arrays`, of the columns that parquet::arrow reads
    std::vector<int> leaves;     // of these
    for (const ParquetColumn& column : file.columns) {
      if (column.leaves.empty()) continue;  // null
      fields.push_back(column.field);
      arrays.emplace_back();
      const int leaf = column.leaves[0];
      const parquet::ColumnDescriptor& descriptor = *file.footer->schema()->Column(leaf);
      if (column.leaves.size() == 1 &&
          is_plain_leaf(*column.field, descriptor, *row_group->metadata()->ColumnChunk(leaf), all_rows)) {
        ARROW_ASSIGN_OR_RAISE(arrays.back(), decode_leaf(pages, leaf, column.field->type(), range, reading_memory()));
      } else if (column.leaves.size() == 1 && !is_whole && is_flat(*column.field, descriptor)) {
        ARROW_ASSIGN_OR_RAISE(arrays.back(), decode_flat(pages, leaf, column.field->type(), range, reading_memory()));
      } else {
        places.push_back(arrays.size() - 1);
        leaves.insert(leaves.end(), column.leaves.begin(), column.leaves.end());
      }
    }
    if (!places.empty()) {
      ARROW_ASSIGN_OR_RAISE(const auto others, read_others(std::move(reader), group, leaves, range, is_whole));
      for (size_t i = 0; i < places.size(); ++i) {
        auto& array = arrays[places[i]];
        array = others->column(static_cast<int>(i));  // in the order in which their leaves were asked for
        const auto& type = fields[places[i]]->type();
        if (array->type()->Equals(*type)) continue;
        ARROW_ASSIGN_OR_RAISE(array, lists_as_tensors(array, type));
      }
    }
    return arrow::RecordBatch::Make(arrow::schema(std::move(fields)), range.rows, std::move(arrays));
    END_PARQUET_CATCH_EXCEPTIONS
  }

  // Rows of columns that only parquet::arrow reads. What stands before them in the row group is decoded as well, a few
  // rows at a time.
  static arrow::Result<std::shared_ptr<arrow::RecordBatch>> read_others(
      std::unique_ptr<parquet::ParquetFileReader> reader, int group, const std::vector<int>& leaves,
      const RowRange& range, bool is_whole) {
    ARROW_ASSIGN_OR_RAISE(auto arrow_reader,
                          parquet::arrow::FileReader::Make(reading_memory(), std::move(reader), reader_properties()));
    if (is_whole) {
      ARROW_ASSIGN_OR_RAISE(const std::shared_ptr<arrow::Table> table, arrow_reader->ReadRowGroup(group, leaves));
      return table->CombineChunksToBatch();
    }
    arrow_reader->set_batch_size(std::min<int64_t>(range.rows, kRowsSkippedAtOnce));
    ARROW_ASSIGN_OR_RAISE(const auto batches, arrow_reader->GetRecordBatchReader({group}, leaves));
    arrow::RecordBatchVector wanted;
    int64_t at = 0;
    while (at < range.first + range.rows) {
      ARROW_ASSIGN_OR_RAISE(const auto batch, batches->Next());
      if (batch == nullptr) return arrow::Status::IOError("the row group ends after ", at, " rows");
      const int64_t from = std::max<int64_t>(range.first - at, 0);
      const int64_t to = std::min(range.first + range.rows - at, batch->num_rows());
      if (from < to) wanted.push_back(batch->Slice(from, to - from));
      at += batch->num_rows();
    }
    ARROW_ASSIGN_OR_RAISE(const auto table, arrow::Table::FromRecordBatches(batches->schema(), wanted));
    return table->CombineChunksToBatch();
  }

  const std::shared_ptr<arrow::fs::FileSystem> file_system_;
  std::vector<ParquetFile> files_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<ChunkSize> chunks_;
  std::vector<Part> parts_;  // of each chunk, in its file
  uint64_t fingerprint_ = 0;
};

}  // namespace

arrow::Result<std::unique_ptr<Source>> parquet_source(std::shared_ptr<arrow::fs::FileSystem> file_system,
                                                      std::vector<arrow::fs::FileInfo> files,
                                                      const ParquetOptions& options) {
  ARROW_RETURN_NOT_OK(check_files(kParquet, files));
  auto source = std::make_unique<ParquetSource>(std::move(file_system), std::move(files));
  ARROW_RETURN_NOT_OK(source->open(options));
  return source;
}

}  // namespace paceline::data
