#include "paceline/data/format/json_source.h"

#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/filesystem/filesystem.h>
#include <arrow/json/options.h>
#include <arrow/json/reader.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <arrow/util/byte_size.h>

#include <algorithm>
#include <functional>

#include "paceline/data/file/file_access_internal.h"
#include "paceline/data/format/line_source_internal.h"

namespace paceline::data {
namespace {

// Arrow's parser takes this much at once in good time, and a decompressed file may be far larger.
constexpr size_t kParsedAtOnce = size_t{64} << 20;

constexpr std::string_view kBlank = " \t\r\n";

// Removes rows that are null from the beginning of a text, since Arrow crashes where the first row is one. Their
// number.
int64_t take_nulls(std::string_view& text) {
  constexpr std::string_view kNull = "null";
  int64_t nulls = 0;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(kBlank), text.size()));
    const bool is_null = text.starts_with(kNull) &&
                         (text.size() == kNull.size() || kBlank.find(text[kNull.size()]) != std::string_view::npos);
    if (!is_null) return nulls;
    text.remove_prefix(kNull.size());
    ++nulls;
  }
}

// Arrow's parser calls itself for each level of a value, and a value of any depth would overflow the stack.
constexpr size_t kDeepest = 500;

// Where a text is nested deeper than that.
size_t deep_place(std::string_view text) {
  size_t depth = 0;
  bool is_quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_quoted) {
      if (c == '\\') ++i;
      if (c == '"') is_quoted = false;
    } else if (c == '"') {
      is_quoted = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kDeepest) return i;
    } else if ((c == '}' || c == ']') && depth > 0) {
      --depth;
    }
  }
  return std::string_view::npos;
}

// The place of the line with a row that is nested deeper than that. Nearly all are passed over at the speed of memory:
// lines that are too short for it, or have too few brackets.
size_t deep_row(std::string_view text) {
  constexpr auto kNone = std::string_view::npos;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    while (line.ends_with('\r') || line.ends_with(' ') || line.ends_with('\t')) line.remove_suffix(1);
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    // A bracket that closes and one that opens, or null, stand next to each other only between rows. So lines that end
    // and begin with them are rows, or the parser gives up there; other lines may be parts of a row.
    const bool is_row = line.empty() || line == "null" || (line.starts_with('{') && line.ends_with('}'));
    if (!is_row) return deep_place(text.substr(begin)) == kNone ? kNone : begin;
    const auto opens = [](char c) { return (c | ('{' ^ '[')) == '{'; };
    const bool may_be_deep = line.size() > kDeepest && std::ranges::count_if(line, opens) > int64_t{kDeepest};
    if (may_be_deep && deep_place(line) != kNone) return begin;
    begin = end + 1;
  }
  return kNone;
}

// As Arrow parses it, which crashes where the first row is null.
arrow::Result<std::shared_ptr<arrow::RecordBatch>> parse_rows(const arrow::json::ParseOptions& options,
                                                              const Lines& lines) {
  std::string_view rest = view_of(*lines.text);
  rest.remove_prefix(std::min(rest.find_first_not_of(" \t\r\n\xEF\xBB\xBF"), rest.size()));
  if (rest.starts_with("null")) return arrow::Status::Invalid("a row begins with null and goes on; wanted: an object");
  if (const size_t deep = deep_row(rest); deep != std::string_view::npos) {
    const auto place = lines.offset + lines.text->size() - static_cast<int64_t>(rest.size() - deep);
    return arrow::Status::Invalid("the row at byte ", place, " is nested deeper than ", kDeepest, " levels");
  }
  return arrow::json::ParseOne(options, lines.text);
}

class JsonSource : public LineSource {
 public:
  JsonSource(std::shared_ptr<arrow::fs::FileSystem> file_system, std::vector<arrow::fs::FileInfo> files,
             const JsonOptions& options)
      : LineSource("JSON", std::move(file_system), std::move(files), options.bad_rows), options_(options) {}

  arrow::Status open() {
    ARROW_ASSIGN_OR_RAISE(const FirstLines first, sample());
    int64_t rows = 0, bytes = 0;
    arrow::json::ParseOptions parse = arrow::json::ParseOptions::Defaults();
    parse.explicit_schema = options_.column_types;
    const auto batch = parse_sample({.lines = {.text = first.lines}, .range = {.file = first_file_}}, parse);
    if (!batch.ok()) return in_file(kind_, path_of(first_file_), batch.status());
    auto schema = options_.column_types != nullptr ? options_.column_types : arrow::schema({});
    if (*batch != nullptr) {
      schema = (*batch)->schema();
      rows = (*batch)->num_rows();
      bytes = arrow::util::ReferencedBufferSize(**batch).ValueOr(0);
    }
    SamplesOptions options{.forgive = bad_rows_ != nullptr, .new_columns = !options_.ignore_other_fields};
    if (options_.column_types != nullptr) options.given = options_.column_types->field_names();
    ARROW_ASSIGN_OR_RAISE(schema,
                          columns_of_files(schema, options, [this](const Block& block) { return infer(block); }));
    if (schema->num_fields() == 0) {
      return arrow::Status::Invalid("no JSON file begins with a row, so that there are no columns; the first is ",
                                    files_.front().path(), "; give column_types");
    }
    return cut(options_.chunk_bytes,
               {.text_bytes = first.lines->size(), .rows = rows, .bytes = bytes, .schema = schema},
               options_.ignore_other_fields);
  }

 protected:
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> parse(const Lines& lines, const LineRange& range) const override {
    arrow::json::ParseOptions parse = arrow::json::ParseOptions::Defaults();
    parse.explicit_schema = schema_;
    parse.unexpected_field_behavior = options_.ignore_other_fields ? arrow::json::UnexpectedFieldBehavior::Ignore
                                                                   : arrow::json::UnexpectedFieldBehavior::Error;
    std::string_view text = text_of(*lines.text, range);
    arrow::RecordBatchVector batches;
    while (true) {
      if (const int64_t nulls = take_nulls(text); nulls > 0) {
        arrow::ArrayVector columns;
        for (const auto& field : schema_->fields()) {
          ARROW_ASSIGN_OR_RAISE(columns.emplace_back(), arrow::MakeArrayOfNull(field->type(), nulls));
        }
        batches.push_back(arrow::RecordBatch::Make(schema_, nulls, std::move(columns)));
      }
      if (text.empty()) break;
      size_t end = text.size() > kParsedAtOnce ? text.find('\n', kParsedAtOnce) : std::string_view::npos;
      end = std::min(end, text.size());
      auto batch = parse_rows(parse, part_of(lines, text.substr(0, end)));
      if (!batch.ok()) {
        return batch.status().WithMessage(
            batch.status().message(), "; ", why(lines, range),
            "columns and types are those that samples of all files have: ", in_a_line(*schema_),
            "; give others in column_types, or leave out others ", "with ignore_other_fields");
      }
      ARROW_RETURN_NOT_OK((*batch)->ValidateFull());  // texts may be anything but UTF-8
      // Its columns stand in the schema's order, since all of them are known.
      batches.push_back(*std::move(batch));
      text.remove_prefix(end);
    }
    if (batches.empty()) return arrow::RecordBatch::MakeEmpty(schema_);
    if (batches.size() == 1) return batches.front();
    ARROW_ASSIGN_OR_RAISE(const auto table, arrow::Table::FromRecordBatches(schema_, batches));
    return table->CombineChunksToBatch();
  }

  std::vector<Span> rows_of(std::string_view lines, const LineRange& range) const override {
    std::vector<Span> rows = LineSource::rows_of(lines, range);
    std::erase_if(rows, [&](const Span& row) {
      return lines.substr(row.first, row.size).find_first_not_of(kBlank) == std::string_view::npos;
    });
    return rows;
  }

 private:
  using Parsed = arrow::Result<std::shared_ptr<arrow::RecordBatch>>;

  // The rows of a block; a null pointer where there are none but null.
  Parsed parse_sample(const Block& block, const arrow::json::ParseOptions& parse) const {
    std::string_view text = text_of(*block.lines.text, block.range);
    take_nulls(text);
    if (text.empty()) return nullptr;
    Parsed batch = parse_rows(parse, part_of(block.lines, text));
    if (!batch.ok() && bad_rows_ != nullptr) batch = parse_good_sample(text, parse);
    return batch;
  }

  // What is in a block, whatever types are given.
  arrow::Result<std::shared_ptr<arrow::Schema>> infer(const Block& block) const {
    ARROW_ASSIGN_OR_RAISE(const auto batch, parse_sample(block, arrow::json::ParseOptions::Defaults()));
    return batch == nullptr ? arrow::schema({}) : batch->schema();
  }

  // What is wrong with the columns of lines that cannot be read with those that are wanted.
  std::string why(const Lines& lines, const LineRange& range) const {
    if (bad_rows_ != nullptr) return "";  // lines are tried one by one
    const auto found = infer({.lines = lines, .range = range});
    std::string text = found.ok() ? differences(**found, *schema_) : "";
    return text.empty() ? text : text + "; ";
  }

  // A sample without the lines that do not go with those before them. They are quarantined when they are read.
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> parse_good_sample(std::string_view text,
                                                                       const arrow::json::ParseOptions& parse) const {
    const std::vector<Span> rows = rows_of(text, {});
    std::string good;
    arrow::Result<std::shared_ptr<arrow::RecordBatch>> made = arrow::Status::Invalid("no line is a row");
    const std::function<void(size_t, size_t)> add = [&](size_t first, size_t end) {
      const Span& last = rows[end - 1];
      std::string more = good;
      more += text.substr(rows[first].first, last.first + last.size - rows[first].first);
      std::string_view objects = more;
      take_nulls(objects);
      auto batch = parse_rows(parse, {.text = arrow::Buffer::FromString(std::string(objects))});
      if (batch.ok()) {
        good = std::move(more);
        made = std::move(batch);
      } else if (end - first > 1) {
        add(first, first + (end - first) / 2);
        add(first + (end - first) / 2, end);
      }
    };
    if (!rows.empty()) add(0, rows.size());
    return made;
  }

  // `text` is in `lines`.
  static Lines part_of(const Lines& lines, std::string_view text) {
    const int64_t place = text.data() - lines.text->data_as<char>();
    return {.text = arrow::SliceBuffer(lines.text, place, static_cast<int64_t>(text.size())),
            .offset = lines.offset + place};
  }

  const JsonOptions options_;
};

}  // namespace

arrow::Result<std::unique_ptr<Source>> json_source(std::shared_ptr<arrow::fs::FileSystem> file_system,
                                                   std::vector<arrow::fs::FileInfo> files, const JsonOptions& options) {
  auto source = std::make_unique<JsonSource>(std::move(file_system), std::move(files), options);
  ARROW_RETURN_NOT_OK(source->open());
  return source;
}

}  // namespace paceline::data
