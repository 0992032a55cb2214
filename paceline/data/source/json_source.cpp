#include "paceline/data/source/json_source.h"

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

#include "paceline/data/source/file_access_internal.h"
#include "paceline/data/source/line_source_internal.h"

namespace paceline::data {
namespace {

// Arrow's parser takes this much at once in good time, and a decompressed file may be far larger.
constexpr size_t kParsedAtOnce = size_t{64} << 20;

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
    // A bracket that closes and one that opens stand next to each other only between rows. So lines that end and begin
    // with them are rows, or the parser gives up there; other lines may be parts of a row.
    const bool is_row = line.empty() || (line.starts_with('{') && line.ends_with('}'));
    if (!is_row) return deep_place(text.substr(begin)) == kNone ? kNone : begin;
    const auto opens = [](char c) { return (c | ('{' ^ '[')) == '{'; };
    const bool may_be_deep = line.size() > kDeepest && std::ranges::count_if(line, opens) > int64_t{kDeepest};
    if (may_be_deep && deep_place(line) != kNone) return begin;
    begin = end + 1;
  }
  return kNone;
}

// As Arrow parses it, which crashes where the first row is null. `offset`: of the text in its file.
arrow::Result<std::shared_ptr<arrow::RecordBatch>> parse_rows(const arrow::json::ParseOptions& options,
                                                              const std::shared_ptr<arrow::Buffer>& text,
                                                              int64_t offset) {
  std::string_view rest = view_of(*text);
  rest.remove_prefix(std::min(rest.find_first_not_of(" \t\r\n\xEF\xBB\xBF"), rest.size()));
  if (rest.starts_with("null")) return arrow::Status::Invalid("a row is null; wanted: an object");
  if (const size_t deep = deep_row(rest); deep != std::string_view::npos) {
    const auto place = offset + text->size() - static_cast<int64_t>(rest.size() - deep);
    return arrow::Status::Invalid("the row at byte ", place, " is nested deeper than ", kDeepest, " levels");
  }
  return arrow::json::ParseOne(options, text);
}

class JsonSource : public LineSource {
 public:
  JsonSource(std::shared_ptr<arrow::fs::FileSystem> file_system, std::vector<arrow::fs::FileInfo> files,
             const JsonOptions& options)
      : LineSource("JSON", std::move(file_system), std::move(files), options.bad_rows), options_(options) {}

  arrow::Status open() {
    ARROW_ASSIGN_OR_RAISE(const FirstLines first, sample());
    const bool is_blank = view_of(*first.lines).find_first_not_of(" \t\r\n") == std::string_view::npos;
    if (is_blank && options_.column_types == nullptr) {
      return arrow::Status::Invalid("no JSON file begins with a row, so that there are no columns; the first is ",
                                    files_.front().path(), "; give column_types");
    }
    std::shared_ptr<arrow::Schema> schema = options_.column_types;
    int64_t rows = 0, bytes = 0;
    if (!is_blank) {
      arrow::json::ParseOptions parse = arrow::json::ParseOptions::Defaults();
      parse.explicit_schema = options_.column_types;
      const std::string_view text = text_of(*first.lines, {});
      auto batch =
          parse_rows(parse, part_of(first.lines, text), first.lines->size() - static_cast<int64_t>(text.size()));
      if (!batch.ok() && bad_rows_ != nullptr) batch = parse_good_sample(text, parse);
      if (!batch.ok()) return in_file(kind_, path_of(first_file_), batch.status());
      schema = (*batch)->schema();
      rows = (*batch)->num_rows();
      bytes = arrow::util::ReferencedBufferSize(**batch).ValueOr(0);
    }
    schema = with_known_types(
        schema, [&](const Lines& lines, const LineRange& block) -> arrow::Result<std::shared_ptr<arrow::Schema>> {
          ARROW_ASSIGN_OR_RAISE(const auto batch,
                                parse_rows(arrow::json::ParseOptions::Defaults(),
                                           part_of(lines.text, text_of(*lines.text, block)), lines.offset));
          return batch->schema();
        });
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
      text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
      if (text.empty()) break;
      size_t end = text.size() > kParsedAtOnce ? text.find('\n', kParsedAtOnce) : std::string_view::npos;
      end = std::min(end, text.size());
      const auto place = static_cast<int64_t>(text.data() - lines.text->data_as<char>());
      auto batch = parse_rows(parse, part_of(lines.text, text.substr(0, end)), lines.offset + place);
      if (!batch.ok()) {
        return batch.status().WithMessage(batch.status().message(), "; columns and types are those that the first ",
                                          "lines of ", path_of(first_file_), " have: ", types(),
                                          "; give others in column_types, or leave out others with "
                                          "ignore_other_fields");
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

 private:
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
      auto batch = parse_rows(parse, arrow::Buffer::FromString(more), 0);
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
  static std::shared_ptr<arrow::Buffer> part_of(const std::shared_ptr<arrow::Buffer>& lines, std::string_view text) {
    return arrow::SliceBuffer(lines, text.data() - lines->data_as<char>(), static_cast<int64_t>(text.size()));
  }

  std::string types() const {
    std::string text;
    for (const auto& field : schema_->fields()) text += (text.empty() ? "" : ", ") + field->ToString();
    return text;
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
