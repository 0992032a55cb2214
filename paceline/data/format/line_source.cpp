#include <arrow/buffer.h>
#include <arrow/filesystem/filesystem.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <algorithm>

#include "paceline/data/file/file_access_internal.h"
#include "paceline/data/format/line_source_internal.h"
#include "paceline/data/order/permutation.h"
#include "paceline/storage/objects/parallel.h"

namespace paceline::data {
LineSource::LineSource(std::string kind, std::shared_ptr<arrow::fs::FileSystem> file_system,
                       std::vector<arrow::fs::FileInfo> files, std::shared_ptr<BadRows> bad_rows)
    : kind_(std::move(kind)),
      file_system_(std::move(file_system)),
      files_(std::move(files)),
      bad_rows_(std::move(bad_rows)) {}

const std::string& LineSource::path_of(int64_t file) const {
  return files_[static_cast<size_t>(file)].path();
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> LineSource::read(int64_t chunk, uint64_t) const {
  const LineRange& range = ranges_[static_cast<size_t>(chunk)];
  const arrow::fs::FileInfo& file = files_[static_cast<size_t>(range.file)];
  const auto lines = read_text(range);
  if (!lines.ok()) return in_file(kind_, file.path(), lines.status());
  auto batch = parse(*lines, range);
  if (!batch.ok() && bad_rows_ != nullptr) batch = parse_good(*lines, chunk, batch.status());
  if (!batch.ok()) return in_file(kind_, file.path(), batch.status());
  return batch;
}

arrow::Result<Lines> LineSource::read_text(const LineRange& range) const {
  return read_lines(*file_system_, files_[static_cast<size_t>(range.file)], range);
}

std::vector<Span> LineSource::rows_of(std::string_view lines, const LineRange&) const {
  std::vector<Span> rows;
  for (size_t first = 0; first < lines.size();) {
    const size_t end = std::min(lines.find('\n', first), lines.size() - 1) + 1;
    rows.push_back({first, end - first});
    first = end;
  }
  return rows;
}

// Where the rows of lines are, and any of them that follow each other.
struct LineSource::Rows {
  std::string_view text;
  size_t skipped = 0;  // bytes before the text
  std::vector<Span> spans;
  BadRows::Attempt attempt;
};

LineSource::Rows LineSource::rows_in(const Lines& lines, const LineRange& range) const {
  Rows rows;
  rows.text = text_of(*lines.text, range);
  rows.skipped = static_cast<size_t>(lines.text->size()) - rows.text.size();
  rows.spans = rows_of(rows.text, range);
  LineRange within = range;
  within.begin = std::max<int64_t>(range.begin, 1);  // without what a file begins with
  rows.attempt = [this, within, lines, skipped = rows.skipped, spans = rows.spans](int64_t first, int64_t count) {
    if (count == 0) return parse({.text = arrow::SliceBuffer(lines.text, 0, 0)}, within);
    const Span& begin = spans[static_cast<size_t>(first)];
    const Span& last = spans[static_cast<size_t>(first + count - 1)];
    const auto place = static_cast<int64_t>(skipped + begin.first);
    const auto size = static_cast<int64_t>(last.first + last.size - begin.first);
    return parse({.text = arrow::SliceBuffer(lines.text, place, size), .offset = lines.offset + place}, within);
  };
  return rows;
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> LineSource::parse_good(const Lines& lines, int64_t chunk,
                                                                          const arrow::Status& status) const {
  const LineRange& range = ranges_[static_cast<size_t>(chunk)];
  const Rows rows = rows_in(lines, range);
  const auto describe = [&](int64_t row) {
    const Span& span = rows.spans[static_cast<size_t>(row)];
    return Json{{"path", path_of(range.file)},
                {"offset", lines.offset + static_cast<int64_t>(rows.skipped + span.first)},
                {"text", std::string(rows.text.substr(span.first, span.size))}};
  };
  const auto others = [&](int64_t other) -> arrow::Result<std::optional<BadRows::Other>> {
    const LineRange& there = ranges_[static_cast<size_t>(other)];
    const auto text = read_text(there);
    if (!text.ok()) return std::nullopt;  // an error where its rows are due
    Rows found = rows_in(*text, there);
    return BadRows::Other{static_cast<int64_t>(found.spans.size()), std::move(found.attempt)};
  };
  return bad_rows_->without_bad(static_cast<int64_t>(rows.spans.size()), status, rows.attempt, describe,
                                {.block = chunk, .blocks = static_cast<int64_t>(ranges_.size()), .others = others});
}

arrow::Result<FirstLines> LineSource::sample() {
  ARROW_RETURN_NOT_OK(check_files(kind_, files_));
  for (size_t i = 0; i < files_.size(); ++i) {
    if (files_[i].size() == 0 && !is_compressed(files_[i].path())) continue;
    auto first = first_lines(*file_system_, files_[i], kFirstBlockBytes);
    if (!first.ok()) return in_file(kind_, files_[i].path(), first.status());
    first_file_ = static_cast<int64_t>(i);
    if (first->lines->size() > 0) return first;
  }
  return FirstLines{.lines = std::make_shared<arrow::Buffer>(nullptr, 0), .is_all = true};
}

arrow::Result<std::shared_ptr<arrow::Schema>> LineSource::columns_of_files(
    std::shared_ptr<arrow::Schema> first, const SamplesOptions& options,
    const std::function<arrow::Result<std::shared_ptr<arrow::Schema>>(const Block&)>& infer) const {
  const std::vector<LineRange> ranges = blocks_to_sample(files_, first_file_);
  const int64_t bytes = bytes_of_beginnings(ranges.size());
  const auto read_block = [&](const LineRange& range) -> arrow::Result<Block> {
    const arrow::fs::FileInfo& file = files_[static_cast<size_t>(range.file)];
    if (!range.is_first()) {
      ARROW_ASSIGN_OR_RAISE(Lines lines, read_lines(*file_system_, file, range));
      return Block{.lines = std::move(lines), .range = range};
    }
    ARROW_ASSIGN_OR_RAISE(FirstLines lines, first_lines(*file_system_, file, bytes));
    return Block{.lines = {.text = std::move(lines.lines)}, .range = range, .is_all = lines.is_all};
  };
  std::vector<SampledColumns> samples{{.schema = std::move(first), .path = path_of(first_file_)}};
  for (const LineRange& range : ranges) samples.push_back({.schema = nullptr, .path = path_of(range.file)});
  ARROW_RETURN_NOT_OK(storage::for_each_in_parallel(ranges.size(), [&](size_t i) {
    const auto block = read_block(ranges[i]);
    if (!block.ok() || block->lines.text->size() == 0) return arrow::Status::OK();
    auto schema = infer(*block);
    if (schema.ok()) samples[i + 1].schema = *std::move(schema);
    return arrow::Status::OK();
  }));
  return columns_of_samples(samples, options);
}

std::string LineSource::in_a_line(const arrow::Schema& schema) {
  std::string text;
  for (const auto& field : schema.fields()) text += (text.empty() ? "" : ", ") + field->ToString();
  return text;
}

arrow::Status LineSource::cut(int64_t chunk_bytes, const Sample& sample, uint64_t options) {
  if (chunk_bytes <= 0) return arrow::Status::Invalid("chunk_bytes is ", chunk_bytes, "; it must be positive");
  schema_ = sample.schema;
  ranges_ = line_ranges(files_, chunk_bytes);
  chunks_ = estimate_chunks(ranges_, files_, sample.text_bytes, sample.rows, sample.bytes);
  fingerprint_ = options;
  for (const arrow::fs::FileInfo& file : files_) fingerprint_ = mix_file(fingerprint_, file);
  for (const LineRange& range : ranges_) fingerprint_ = mix(fingerprint_, static_cast<uint64_t>(range.begin));
  fingerprint_ = mix_text(fingerprint_, schema_->ToString());
  if (bad_rows_ != nullptr) fingerprint_ = mix(fingerprint_, bad_rows_->fingerprint());
  return arrow::Status::OK();
}

}  // namespace paceline::data
