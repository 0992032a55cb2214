#include <arrow/buffer.h>
#include <arrow/filesystem/filesystem.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include "paceline/data/order/permutation.h"
#include "paceline/data/source/file_access_internal.h"
#include "paceline/data/source/line_source_internal.h"

namespace paceline::data {

LineSource::LineSource(std::string kind, std::shared_ptr<arrow::fs::FileSystem> file_system,
                       std::vector<arrow::fs::FileInfo> files)
    : kind_(std::move(kind)), file_system_(std::move(file_system)), files_(std::move(files)) {}

const std::string& LineSource::path_of(int64_t file) const {
  return files_[static_cast<size_t>(file)].path();
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> LineSource::read(int64_t chunk, uint64_t) const {
  const LineRange& range = ranges_[static_cast<size_t>(chunk)];
  const arrow::fs::FileInfo& file = files_[static_cast<size_t>(range.file)];
  const auto lines = read_lines(*file_system_, file, range);
  if (!lines.ok()) return in_file(kind_, file.path(), lines.status());
  auto batch = parse(*lines, range);
  if (!batch.ok()) return in_file(kind_, file.path(), batch.status());
  return batch;
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

arrow::Status LineSource::cut(int64_t chunk_bytes, const std::function<bool(size_t file)>& keep_whole,
                              int64_t sample_bytes, int64_t rows, int64_t bytes,
                              std::shared_ptr<arrow::Schema> schema) {
  if (chunk_bytes <= 0) return arrow::Status::Invalid("chunk_bytes is ", chunk_bytes, "; it must be positive");
  schema_ = std::move(schema);
  ranges_ = line_ranges(files_, chunk_bytes, keep_whole);
  chunks_ = estimate_chunks(ranges_, files_, sample_bytes, rows, bytes);
  for (const arrow::fs::FileInfo& file : files_) fingerprint_ = mix_file(fingerprint_, file);
  for (const LineRange& range : ranges_) fingerprint_ = mix(fingerprint_, static_cast<uint64_t>(range.begin));
  fingerprint_ = mix_text(fingerprint_, schema_->ToString());
  return arrow::Status::OK();
}

}  // namespace paceline::data
