#include <arrow/buffer.h>
#include <arrow/filesystem/filesystem.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <algorithm>

#include "paceline/data/order/permutation.h"
#include "paceline/data/source/file_access_internal.h"
#include "paceline/data/source/line_source_internal.h"

namespace paceline::data {
namespace {

bool has_null_type(const arrow::FieldVector& fields) {
  return std::ranges::any_of(fields, [](const auto& field) {
    return field->type()->id() == arrow::Type::NA || has_null_type(field->type()->fields());
  });
}

}  // namespace

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
  if (!batch.ok() && bad_rows_ != nullptr) batch = parse_good(*lines, range, batch.status());
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

arrow::Result<std::shared_ptr<arrow::RecordBatch>> LineSource::parse_good(const Lines& lines, const LineRange& range,
                                                                          const arrow::Status& status) const {
  const std::string_view text = text_of(*lines.text, range);
  const auto skipped = static_cast<size_t>(lines.text->size()) - text.size();
  const std::vector<Span> rows = rows_of(text, range);
  LineRange within = range;
  within.begin = std::max<int64_t>(range.begin, 1);  // without what a file begins with
  const auto attempt = [&](int64_t first, int64_t count) {
    if (count == 0) return parse({.text = arrow::SliceBuffer(lines.text, 0, 0)}, within);
    const Span& begin = rows[static_cast<size_t>(first)];
    const Span& last = rows[static_cast<size_t>(first + count - 1)];
    const auto place = static_cast<int64_t>(skipped + begin.first);
    const auto size = static_cast<int64_t>(last.first + last.size - begin.first);
    return parse({.text = arrow::SliceBuffer(lines.text, place, size), .offset = lines.offset + place}, within);
  };
  const auto describe = [&](int64_t row) {
    const Span& span = rows[static_cast<size_t>(row)];
    return Json{{"path", path_of(range.file)},
                {"offset", lines.offset + static_cast<int64_t>(skipped + span.first)},
                {"text", std::string(text.substr(span.first, span.size))}};
  };
  return bad_rows_->without_bad(static_cast<int64_t>(rows.size()), status, attempt, describe);
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

std::shared_ptr<arrow::Schema> LineSource::with_known_types(
    std::shared_ptr<arrow::Schema> schema,
    const std::function<arrow::Result<std::shared_ptr<arrow::Schema>>(const Lines&, const LineRange&)>& infer) const {
  constexpr size_t kSamples = 16;
  const std::vector<LineRange> blocks = line_ranges(files_, kFirstBlockBytes);
  const auto read_block = [&](const LineRange& block) -> arrow::Result<Lines> {
    const arrow::fs::FileInfo& file = files_[static_cast<size_t>(block.file)];
    if (!block.is_first()) return read_lines(*file_system_, file, block);
    ARROW_ASSIGN_OR_RAISE(const FirstLines first, first_lines(*file_system_, file, kFirstBlockBytes));
    return Lines{.text = first.lines};
  };
  for (size_t i = 1; i <= kSamples && !blocks.empty() && has_null_type(schema->fields()); ++i) {
    const size_t place = i * (blocks.size() - 1) / kSamples;
    if (place == 0 || place == (i - 1) * (blocks.size() - 1) / kSamples) continue;
    const LineRange& block = blocks[place];
    // What cannot be read is an error where its rows are due.
    const auto lines = read_block(block);
    if (!lines.ok() || lines->text->size() == 0) continue;
    const auto found = infer(*lines, block);
    if (!found.ok()) continue;
    arrow::FieldVector fields = schema->fields();
    for (auto& field : fields) {
      const auto other = (*found)->GetFieldByName(field->name());
      if (other == nullptr || !has_null_type({field})) continue;
      const auto options = arrow::Field::MergeOptions::Permissive();
      const auto merged = field->MergeWith(other, options);
      if (merged.ok()) field = *merged;
    }
    schema = arrow::schema(std::move(fields));
  }
  return schema;
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
