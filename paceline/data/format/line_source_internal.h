// What the sources of files of lines have in common: all but what the lines mean.
#pragma once

#include <arrow/filesystem/type_fwd.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/data/format/line_ranges_internal.h"
#include "paceline/data/format/line_types_internal.h"
#include "paceline/data/source/bad_rows.h"
#include "paceline/data/source/source.h"

namespace paceline::data {

/// Bytes of a text.
struct Span {
  size_t first = 0;
  size_t size = 0;
};

/// Rows are not counted before they are read, which would take as long as reading them: chunks() has what the first
/// block of the first file makes likely.
class LineSource : public Source {
 public:
  /// `kind` is for messages: "CSV". `bad_rows`: what becomes of them; a null pointer where they are errors.
  LineSource(std::string kind, std::shared_ptr<arrow::fs::FileSystem> file_system,
             std::vector<arrow::fs::FileInfo> files, std::shared_ptr<BadRows> bad_rows);

  arrow::Result<std::shared_ptr<arrow::Schema>> schema() const override { return schema_; }
  const std::vector<ChunkSize>& chunks() const override { return chunks_; }
  bool counts_rows() const override { return false; }
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> read(int64_t chunk, uint64_t key) const override;
  uint64_t fingerprint() const override { return fingerprint_; }

 protected:
  /// The rows of whole lines. An error does not need to name the file.
  virtual arrow::Result<std::shared_ptr<arrow::RecordBatch>> parse(const Lines& lines,
                                                                   const LineRange& range) const = 0;
  /// The lines of a range. An error does not need to name the file.
  virtual arrow::Result<Lines> read_text(const LineRange& range) const;
  /// Where the rows of whole lines are: parse() reads any of them that follow each other as those of a range that is
  /// not the first. By default a row is a line.
  virtual std::vector<Span> rows_of(std::string_view lines, const LineRange& range) const;

  /// The first lines of the first file that has some, which is `first_file_`; none where no file has a line.
  arrow::Result<FirstLines> sample();
  /// What a sample says of all files.
  struct Sample {
    int64_t text_bytes = 0;
    int64_t rows = 0;
    int64_t bytes = 0;  ///< of the rows
    std::shared_ptr<arrow::Schema> schema;
  };
  /// Makes the chunks. `options`: a number of what else the rows depend on.
  arrow::Status cut(int64_t chunk_bytes, const Sample& sample, uint64_t options);
  /// A block that shows what is in the files.
  struct Block {
    Lines lines;
    LineRange range;
    bool is_all = false;  ///< the file has no other lines
  };
  /// The columns of all files, as far as blocks all over them show: `first` has those of the first one. `infer` gives
  /// those of a block, and is called by several threads. What cannot be read is an error where its rows are due.
  arrow::Result<std::shared_ptr<arrow::Schema>> columns_of_files(
      std::shared_ptr<arrow::Schema> first, const SamplesOptions& options,
      const std::function<arrow::Result<std::shared_ptr<arrow::Schema>>(const Block&)>& infer) const;
  /// `names` and types of a schema, for messages: "x: int64, s: string".
  static std::string in_a_line(const arrow::Schema& schema);
  const std::string& path_of(int64_t file) const;

  const std::string kind_;
  const std::shared_ptr<arrow::fs::FileSystem> file_system_;
  const std::vector<arrow::fs::FileInfo> files_;
  const std::shared_ptr<BadRows> bad_rows_;
  int64_t first_file_ = 0;
  std::shared_ptr<arrow::Schema> schema_;

 private:
  struct Rows;
  Rows rows_in(const Lines& lines, const LineRange& range) const;
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> parse_good(const Lines& lines, int64_t chunk,
                                                                const arrow::Status& status) const;

  std::vector<LineRange> ranges_;
  std::vector<ChunkSize> chunks_;
  uint64_t fingerprint_ = 0;
};

}  // namespace paceline::data
