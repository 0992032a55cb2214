#include "paceline/data/format/csv_source.h"

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
#include <arrow/util/value_parsing.h>

#include <algorithm>

#include "paceline/data/file/file_access_internal.h"
#include "paceline/data/format/csv_rows_internal.h"
#include "paceline/data/format/line_source_internal.h"
#include "paceline/data/memory/reading_memory.h"
#include "paceline/storage/objects/parallel.h"

namespace paceline::data {
namespace {

class CsvSource : public LineSource {
 public:
  CsvSource(std::shared_ptr<arrow::fs::FileSystem> file_system, std::vector<arrow::fs::FileInfo> files,
            const CsvOptions& options)
      : LineSource("CSV", std::move(file_system), std::move(files), options.bad_rows),
        options_(options),
        names_(files_.size()) {
    options_.read.use_threads = false;
    for (const auto& file : files_) {
      places_.push_back(std::make_unique<CsvPlaces>(file_system_, file, options_.parse));
    }
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
    // Bad values are those of rows that are read, not of the sample. A file may lack columns that others have.
    arrow::csv::ConvertOptions convert = options_.convert;
    if (bad_rows_ != nullptr) convert.column_types.clear();
    convert.include_missing_columns = true;
    const auto table = parse_table(first, options_.read, /*has_line_breaks=*/true, convert,
                                   /*skips_ragged=*/bad_rows_ != nullptr);
    if (!table.ok()) return in_file(kind_, path_of(first_file_), table.status());
    const std::vector<std::string> names = (*table)->schema()->field_names();
    for (const std::string& name : names) {
      if (std::ranges::count(names, name) == 1) continue;
      return in_file(kind_, path_of(first_file_),
                     arrow::Status::Invalid("two columns are called '", name, "'; give others in column_names"));
    }
    // Rows after the first line are read without it: in later chunks, and where bad rows are left out.
    ARROW_RETURN_NOT_OK(storage::for_each_in_parallel(files_.size(), [this](size_t i) {
      return is_whole(i) && bad_rows_ == nullptr ? arrow::Status::OK() : read_names(i);
    }));
    ARROW_ASSIGN_OR_RAISE(const auto schema, find_columns(first));
    ARROW_RETURN_NOT_OK(cut(options_.chunk_bytes,
                            {.text_bytes = first->size(),
                             .rows = (*table)->num_rows(),
                             .bytes = arrow::util::ReferencedBufferSize(**table).ValueOr(0),
                             .schema = schema},
                            options_print()));
    for (const auto& field : schema_->fields()) options_.convert.column_types[field->name()] = field->type();
    options_.convert.include_missing_columns = true;
    may_have_others_ = options_.convert.include_columns.empty() && files_.size() > kMostBeginnings;
    // From here on in this order, whatever the order in a file.
    if (options_.convert.include_columns.empty()) options_.convert.include_columns = schema_->field_names();
    return arrow::Status::OK();
  }

 protected:
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> parse(const Lines& lines, const LineRange& range) const override {
    if (lines.text->size() == 0) return arrow::RecordBatch::MakeEmpty(schema_);
    const arrow::csv::ReadOptions read = range.is_first() ? options_.read : options_behind_names(range.file);
    const bool has_line_breaks = !options_.cut_quoted && has_quotes(*lines.text);
    const auto table = parse_table(lines.text, read, has_line_breaks, options_.convert);
    if (!table.ok()) {
      return table.status().WithMessage(table.status().message(), "; ", why(lines, range),
                                        "the types are those that samples of all files have: ", in_a_line(*schema_),
                                        "; give others in column_types");
    }
    if (range.is_first() && may_have_others_ && bad_rows_ == nullptr) {
      ARROW_RETURN_NOT_OK(check_names(lines.text, range));
    }
    return (*table)->CombineChunksToBatch();
  }

  arrow::Result<Lines> read_text(const LineRange& range) const override {
    ARROW_ASSIGN_OR_RAISE(Lines lines, LineSource::read_text(range));
    const auto file = static_cast<size_t>(range.file);
    const bool may_be_cut_in_quotes =
        options_.parse.newlines_in_values || (!options_.cut_quoted && has_quotes(*lines.text));
    if (is_whole(file) || !may_be_cut_in_quotes) return lines;
    return places_[file]->rows_of(range, options_.chunk_bytes);
  }

  std::vector<Span> rows_of(std::string_view lines, const LineRange& range) const override {
    std::vector<Span> rows;
    CsvPlace place;
    size_t first = 0;
    for (size_t i = 0; i < lines.size(); ++i) {
      if (!place.ends_row(lines[i], options_.parse)) continue;
      rows.push_back({first, i + 1 - first});
      first = i + 1;
    }
    if (first < lines.size()) rows.push_back({first, lines.size() - first});
    if (range.is_first()) {
      const bool has_names = options_.read.column_names.empty() && !options_.read.autogenerate_column_names;
      const auto before =
          static_cast<size_t>(options_.read.skip_rows + options_.read.skip_rows_after_names) + has_names;
      rows.erase(rows.begin(), rows.begin() + static_cast<int64_t>(std::min(before, rows.size())));
    }
    const auto is_blank = [&](const Span& row) {
      return lines.substr(row.first, row.size).find_first_not_of("\r\n") == std::string_view::npos;
    };
    if (options_.parse.ignore_empty_lines) std::erase_if(rows, is_blank);
    return rows;
  }

 private:
  // What is wrong with the types of lines that cannot be read with those that are wanted.
  std::string why(const Lines& lines, const LineRange& range) const {
    if (bad_rows_ != nullptr) return "";  // lines are tried one by one
    const auto found = types_of({.lines = lines, .range = range, .is_all = true});
    std::string text = found.ok() ? differences(**found, *schema_) : "";
    return text.empty() ? text : text + "; ";
  }

  // Of a file whose beginning has not been looked at, as there are too many.
  arrow::Status check_names(const std::shared_ptr<arrow::Buffer>& lines, const LineRange& range) const {
    const auto rows = rows_of(view_of(*lines).substr(0, kFirstBlockBytes), {.begin = 1});
    const auto count = static_cast<size_t>(options_.read.skip_rows) + 1;
    if (rows.size() < count) return arrow::Status::OK();
    const Span& last = rows[count - 1];
    const auto beginning = arrow::SliceBuffer(lines, 0, static_cast<int64_t>(last.first + last.size));
    const auto found = types_of({.lines = {.text = beginning}, .range = range, .is_all = true});
    if (!found.ok()) return arrow::Status::OK();
    for (const std::string& name : (*found)->field_names()) {
      if (schema_->GetFieldIndex(name) >= 0) continue;
      return arrow::Status::Invalid("it has a column '", name, "', which the files that were looked at do not have (",
                                    in_a_line(*schema_), "); give it a type in column_types, or select others");
    }
    return arrow::Status::OK();
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

  bool is_whole(size_t file) const {
    return is_compressed(files_[file].path()) || files_[file].size() <= options_.chunk_bytes;
  }

  // For rows that are not those of the file's beginning.
  arrow::csv::ReadOptions options_behind_names(int64_t file) const {
    arrow::csv::ReadOptions read = options_.read;
    read.column_names = names_[static_cast<size_t>(file)];
    read.autogenerate_column_names = false;
    read.skip_rows = read.skip_rows_after_names = 0;
    return read;
  }

  // What is in a block, whatever types are given and columns wanted.
  arrow::Result<std::shared_ptr<arrow::Schema>> types_of(const Block& block) const {
    std::shared_ptr<arrow::Buffer> text = block.lines.text;
    arrow::csv::ReadOptions read = options_.read;
    const auto file = static_cast<size_t>(block.range.file);
    if (!block.range.is_first()) {
      // Nobody knows whether it begins in quotes.
      if (!options_.cut_quoted && !block.is_all && has_quotes(*text)) return arrow::Status::Cancelled("it has quotes");
      read = options_behind_names(block.range.file);
      if (names_[file].empty()) {
        ARROW_ASSIGN_OR_RAISE(read.column_names, names_of_columns(files_[file]));
      }
    } else if (!block.is_all && has_quotes(*text)) {
      ARROW_ASSIGN_OR_RAISE(text, whole_rows(text));
    }
    arrow::csv::ConvertOptions convert = options_.convert;
    convert.column_types.clear();
    convert.include_columns.clear();
    ARROW_ASSIGN_OR_RAISE(const auto table,
                          parse_table(text, read, /*has_line_breaks=*/true, convert, /*skips_ragged=*/true));
    return table->schema();
  }

  // Those that are wanted, with their types.
  arrow::Result<std::shared_ptr<arrow::Schema>> find_columns(const std::shared_ptr<arrow::Buffer>& first) const {
    const LineRange beginning{.file = first_file_};
    ARROW_ASSIGN_OR_RAISE(auto schema, types_of({.lines = {.text = first}, .range = beginning, .is_all = true}));
    SamplesOptions options{.are_texts = true, .forgive = bad_rows_ != nullptr};
    for (const auto& [name, type] : options_.convert.column_types) options.given.push_back(name);
    const auto infer = [&](const Block& block) { return types_of(block); };
    ARROW_ASSIGN_OR_RAISE(schema, columns_of_files(std::move(schema), options, infer));
    arrow::FieldVector fields = schema->fields();
    if (!options_.convert.include_columns.empty()) {
      fields.clear();
      for (const std::string& name : options_.convert.include_columns) {
        fields.push_back(schema->GetFieldByName(name));
        if (fields.back() == nullptr && options_.convert.include_missing_columns) {
          fields.back() = arrow::field(name, arrow::null());
        }
        if (fields.back() != nullptr) continue;
        return arrow::Status::Invalid("no CSV file has a column '", name, "'; there is ", in_a_line(*schema));
      }
    }
    for (auto& field : fields) {
      const auto type = options_.convert.column_types.find(field->name());
      if (type != options_.convert.column_types.end()) field = field->WithType(type->second);
    }
    return arrow::schema(std::move(fields));
  }

  uint64_t options_print() const {
    const arrow::csv::ParseOptions& parse = options_.parse;
    std::string text = {parse.delimiter, parse.quoting ? parse.quote_char : '\0', parse.double_quote ? 'd' : 's',
                        parse.escaping ? parse.escape_char : '\0', parse.ignore_empty_lines ? 'i' : 'k'};
    for (const int64_t skipped : {int64_t{options_.read.skip_rows}, int64_t{options_.read.skip_rows_after_names}}) {
      text += " " + std::to_string(skipped);
    }
    const arrow::csv::ConvertOptions& convert = options_.convert;
    for (const auto* values : {&convert.null_values, &convert.true_values, &convert.false_values}) {
      for (const std::string& value : *values) text += std::to_string(value.size()) + value;
      text += '/';
    }
    text += {convert.decimal_point, convert.strings_can_be_null ? 's' : '-',
             convert.quoted_strings_can_be_null ? 'q' : '-'};
    for (const auto& parser : convert.timestamp_parsers) text += std::string(parser->kind()) + parser->format();
    return mix_text(options_.read.column_names.empty() && !options_.read.autogenerate_column_names, text);
  }

  static arrow::csv::InvalidRowResult skip_row(const arrow::csv::InvalidRow&) {
    return arrow::csv::InvalidRowResult::Skip;
  }

  arrow::Status read_names(size_t file) {
    auto names = names_of_columns(files_[file]);
    if (!names.ok()) return in_file(kind_, files_[file].path(), names.status());
    names_[file] = *std::move(names);
    return arrow::Status::OK();
  }

  arrow::Result<std::vector<std::string>> names_of_columns(const arrow::fs::FileInfo& file) const {
    ARROW_ASSIGN_OR_RAISE(const FirstLines first, first_lines(*file_system_, file, kFirstBlockBytes));
    if (first.lines->size() == 0) return std::vector<std::string>();
    arrow::csv::ConvertOptions convert;  // the names alone are wanted
    convert.default_column_type = arrow::binary();
    arrow::csv::ParseOptions parse = options_.parse;
    parse.invalid_row_handler = skip_row;
    parse.newlines_in_values = true;
    ARROW_ASSIGN_OR_RAISE(const std::shared_ptr<arrow::Buffer> rows, whole_rows(first.lines));
    ARROW_ASSIGN_OR_RAISE(const auto table, read_table(rows, options_.read, parse, convert));
    return table->schema()->field_names();
  }

  arrow::Result<std::shared_ptr<arrow::Table>> parse_table(const std::shared_ptr<arrow::Buffer>& lines,
                                                           const arrow::csv::ReadOptions& read, bool has_line_breaks,
                                                           const arrow::csv::ConvertOptions& convert,
                                                           bool skips_ragged = false) const {
    arrow::csv::ParseOptions parse = options_.parse;
    if (skips_ragged) parse.invalid_row_handler = skip_row;
    parse.newlines_in_values |= has_line_breaks;
    return read_table(lines, read, parse, convert);
  }

  static arrow::Result<std::shared_ptr<arrow::Table>> read_table(const std::shared_ptr<arrow::Buffer>& lines,
                                                                 arrow::csv::ReadOptions read,
                                                                 const arrow::csv::ParseOptions& parse,
                                                                 const arrow::csv::ConvertOptions& convert) {
    // One block where it can be one, so that nothing is copied to put blocks together.
    constexpr int64_t kLargestBlock = int64_t{256} << 20;
    read.block_size = static_cast<int32_t>(std::min(lines->size() + 1, kLargestBlock));
    const auto input = std::make_shared<arrow::io::BufferReader>(lines);
    ARROW_ASSIGN_OR_RAISE(auto reader, arrow::csv::TableReader::Make(arrow::io::IOContext(reading_memory()), input,
                                                                     read, parse, convert));
    return reader->Read();
  }

  CsvOptions options_;
  bool may_have_others_ = false;                    // columns: all are wanted
  std::vector<std::vector<std::string>> names_;     // of each file's columns, where they are needed
  std::vector<std::unique_ptr<CsvPlaces>> places_;  // of each file
};

}  // namespace

arrow::Result<std::unique_ptr<Source>> csv_source(std::shared_ptr<arrow::fs::FileSystem> file_system,
                                                  std::vector<arrow::fs::FileInfo> files, const CsvOptions& options) {
  auto source = std::make_unique<CsvSource>(std::move(file_system), std::move(files), options);
  ARROW_RETURN_NOT_OK(source->open());
  return source;
}

}  // namespace paceline::data
