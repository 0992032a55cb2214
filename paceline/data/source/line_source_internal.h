// What the sources of files of lines have in common: all but what the lines mean.
#pragma once

#include <arrow/filesystem/type_fwd.h>

#include <functional>
#include <string>
#include <vector>

#include "paceline/data/source/line_ranges_internal.h"
#include "paceline/data/source/source.h"

namespace paceline::data {

/// Rows are not counted before they are read, which would take as long as reading them: chunks() has what the first
/// block of the first file makes likely.
class LineSource : public Source {
 public:
  /// `kind` is for messages: "CSV".
  LineSource(std::string kind, std::shared_ptr<arrow::fs::FileSystem> file_system,
             std::vector<arrow::fs::FileInfo> files);

  arrow::Result<std::shared_ptr<arrow::Schema>> schema() const override { return schema_; }
  const std::vector<ChunkSize>& chunks() const override { return chunks_; }
  bool counts_rows() const override { return false; }
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> read(int64_t chunk, uint64_t key) const override;
  uint64_t fingerprint() const override { return fingerprint_; }

 protected:
  /// The rows of whole lines. An error does not need to name the file.
  virtual arrow::Result<std::shared_ptr<arrow::RecordBatch>> parse(const std::shared_ptr<arrow::Buffer>& lines,
                                                                   const LineRange& range) const = 0;

  /// The first lines of the first file that has some, which is `first_file_`; none where no file has a line.
  arrow::Result<FirstLines> sample();
  /// Makes the chunks. The sample has `rows` rows of so many `bytes`.
  arrow::Status cut(int64_t chunk_bytes, const std::function<bool(size_t file)>& keep_whole, int64_t sample_bytes,
                    int64_t rows, int64_t bytes, std::shared_ptr<arrow::Schema> schema);
  const std::string& path_of(int64_t file) const;

  const std::string kind_;
  const std::shared_ptr<arrow::fs::FileSystem> file_system_;
  const std::vector<arrow::fs::FileInfo> files_;
  int64_t first_file_ = 0;
  std::shared_ptr<arrow::Schema> schema_;

 private:
  std::vector<LineRange> ranges_;
  std::vector<ChunkSize> chunks_;
  uint64_t fingerprint_ = 0;
};

}  // namespace paceline::data
