#include "paceline/data/source/csv_source.h"

#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/csv/chunker.h>
#include <arrow/csv/reader.h>
#include <arrow/filesystem/filesystem.h>
#include <arrow/io/memory.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <arrow/util/byte_size.h>

#include <algorithm>

#include "paceline/data/source/file_access_internal.h"
#include "paceline/data/source/line_source_internal.h"
#include "paceline/storage/objects/parallel.h"

namespace paceline::data {
namespace {

// What is known of a file that is read in several chunks: those after the first do not have its first lines.
struct CsvHead {
  bool has_quotes = false;
  std::vector<std::string> names;
};

class CsvSource : public LineSource {
 public:
  CsvSource(std::shared_ptr<arrow::fs::FileSystem> file_system, std::vector<arrow::fs::FileInfo> files,
            const CsvOptions& options)
      : LineSource("CSV", std::move(file_system), std::move(files)), options_(options), heads_(files_.size()) {
    options_.read.use_threads = false;
  }

  arrow::Status open() {
    ARROW_ASSIGN_OR_RAISE(const FirstLines sampled, sample());
    std::shared_ptr<arrow::Buffer> first = sampled.lines;
    if (first->size() == 0) {
      return arrow::Status::Invalid("no CSV file has a line, so that there are no columns; the first is ",
                                    files_.front().path());
    }
    // The last line break may be in quotes.
    if (!sampled.is_all && has_quotes(*first)) {
      ARROW_ASSIGN_OR_RAISE(first, whole_rows(first));
    }
    const auto table = parse_table(first, options_.read, /*has_line_breaks=*/true);
    if (!table.ok()) return in_file(kind_, path_of(first_file_), table.status());
    const std::vector<std::string> names = (*table)->schema()->field_names();
    for (const std::string& name : names) {
      if (std::ranges::count(names, name) == 1) continue;
      return in_file(kind_, path_of(first_file_),
                     arrow::Status::Invalid("two columns are called '", name, "'; give others in column_names"));
    }
    ARROW_RETURN_NOT_OK(storage::for_each_in_parallel(
        files_.size(), [this](size_t i) { return in_file(kind_, files_[i].path(), read_head(i)); }));
    ARROW_RETURN_NOT_OK(cut(
        options_.chunk_bytes, [this](size_t i) { return is_whole(i); }, first->size(), (*table)->num_rows(),
        arrow::util::ReferencedBufferSize(**table).ValueOr(0), (*table)->schema()));
    for (const auto& field : schema_->fields()) options_.convert.column_types[field->name()] = field->type();
    // From here on in this order, whatever the order in a file.
    if (options_.convert.include_columns.empty()) options_.convert.include_columns = schema_->field_names();
    return arrow::Status::OK();
  }

 protected:
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> parse(const std::shared_ptr<arrow::Buffer>& lines,
                                                           const LineRange& range) const override {
    const bool is_whole_file = is_whole(static_cast<size_t>(range.file));
    if (!is_whole_file && !options_.cut_quoted && has_quotes(*lines)) {
      return arrow::Status::Invalid(
          "it has quotes, though its first block has none, and has been cut at line breaks, which may be in quotes; "
          "set newlines_in_values if some are, and cut_quoted if none is");
    }
    if (lines->size() == 0) return arrow::RecordBatch::MakeEmpty(schema_);
    arrow::csv::ReadOptions read = options_.read;
    if (!range.is_first()) {
      read.column_names = heads_[static_cast<size_t>(range.file)].names;
      read.autogenerate_column_names = false;
      read.skip_rows = read.skip_rows_after_names = 0;
    }
    const auto table = parse_table(lines, read, is_whole_file);
    if (!table.ok()) {
      return table.status().WithMessage(table.status().message(), "; types are those that the first lines of ",
                                        path_of(first_file_), " have: ", in_a_line(*schema_),
                                        "; give others in column_types");
    }
    return (*table)->CombineChunksToBatch();
  }

 private:
  static std::string in_a_line(const arrow::Schema& schema) {
    std::string text;
    for (const auto& field : schema.fields()) text += (text.empty() ? "" : ", ") + field->ToString();
    return text;
  }

  bool has_quotes(const arrow::Buffer& lines) const {
    const std::string_view text = view_of(lines);
    return (options_.parse.quoting && text.find(options_.parse.quote_char) != std::string_view::npos) ||
           (options_.parse.escaping && text.find(options_.parse.escape_char) != std::string_view::npos);
  }

  // Without the row that is cut off, unless it is the only one.
  arrow::Result<std::shared_ptr<arrow::Buffer>> whole_rows(const std::shared_ptr<arrow::Buffer>& lines) const {
    arrow::csv::ParseOptions parse = options_.parse;
    parse.newlines_in_values = true;
    std::shared_ptr<arrow::Buffer> whole, partial;
    ARROW_RETURN_NOT_OK(arrow::csv::MakeChunker(parse)->Process(lines, &whole, &partial));
    return whole->size() > 0 ? whole : lines;
  }

  // Whether the file is a chunk, with all line breaks that it has.
  bool is_whole(size_t file) const {
    return is_compressed(files_[file].path()) || files_[file].size() <= options_.chunk_bytes ||
           options_.parse.newlines_in_values || (heads_[file].has_quotes && !options_.cut_quoted);
  }

  arrow::Status read_head(size_t file) {
    if (is_whole(file)) return arrow::Status::OK();
    ARROW_ASSIGN_OR_RAISE(const FirstLines first, first_lines(*file_system_, files_[file], kFirstBlockBytes));
    heads_[file].has_quotes = has_quotes(*first.lines);
    if (is_whole(file)) return arrow::Status::OK();
    arrow::csv::ConvertOptions convert;  // the names alone are wanted
    convert.default_column_type = arrow::binary();
    ARROW_ASSIGN_OR_RAISE(const auto table, read_table(first.lines, options_.read, options_.parse, convert));
    heads_[file].names = table->schema()->field_names();
    return arrow::Status::OK();
  }

  arrow::Result<std::shared_ptr<arrow::Table>> parse_table(const std::shared_ptr<arrow::Buffer>& lines,
                                                           const arrow::csv::ReadOptions& read,
                                                           bool has_line_breaks) const {
    arrow::csv::ParseOptions parse = options_.parse;
    parse.newlines_in_values |= has_line_breaks;
    return read_table(lines, read, parse, options_.convert);
  }

  static arrow::Result<std::shared_ptr<arrow::Table>> read_table(const std::shared_ptr<arrow::Buffer>& lines,
                                                                 arrow::csv::ReadOptions read,
                                                                 const arrow::csv::ParseOptions& parse,
                                                                 const arrow::csv::ConvertOptions& convert) {
    // One block where it can be one, so that nothing is copied to put blocks together.
    constexpr int64_t kLargestBlock = int64_t{256} << 20;
    read.block_size = static_cast<int32_t>(std::min(lines->size() + 1, kLargestBlock));
    const auto input = std::make_shared<arrow::io::BufferReader>(lines);
    ARROW_ASSIGN_OR_RAISE(auto reader,
                          arrow::csv::TableReader::Make(arrow::io::default_io_context(), input, read, parse, convert));
    return reader->Read();
  }

  CsvOptions options_;
  std::vector<CsvHead> heads_;
};

}  // namespace

arrow::Result<std::unique_ptr<Source>> csv_source(std::shared_ptr<arrow::fs::FileSystem> file_system,
                                                  std::vector<arrow::fs::FileInfo> files, const CsvOptions& options) {
  auto source = std::make_unique<CsvSource>(std::move(file_system), std::move(files), options);
  ARROW_RETURN_NOT_OK(source->open());
  return source;
}

}  // namespace paceline::data
