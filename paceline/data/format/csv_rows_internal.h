// Where the rows of a CSV file begin and end: a line break in quotes ends none.
#pragma once

#include <arrow/csv/options.h>
#include <arrow/filesystem/type_fwd.h>
#include <arrow/result.h>

#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "paceline/core/posix/forks.h"
#include "paceline/data/format/line_ranges_internal.h"

namespace paceline::data {

/// What a reader of CSV knows between two bytes of a file: quotes count where a field begins with one.
class CsvPlace {
 public:
  /// Whether a row ends with `byte`, which comes next.
  bool ends_row(char byte, const arrow::csv::ParseOptions& options);
  /// Whether nothing of a field has come yet: behind a line break, that is where a row begins.
  bool is_at_beginning() const { return in_ == In::beginning && !is_escaped_; }

 private:
  enum class In : uint8_t { beginning, field, quotes, end_of_quotes };
  In in_ = In::beginning;
  bool is_escaped_ = false;
};

/// The places at which a file's ranges begin, found by reading what stands before, once. Thread-safe.
class CsvPlaces {
 public:
  CsvPlaces(std::shared_ptr<arrow::fs::FileSystem> file_system, arrow::fs::FileInfo file,
            arrow::csv::ParseOptions options)
      : file_system_(std::move(file_system)), file_(std::move(file)), options_(std::move(options)) {}

  /// The rows that begin in a range, the ranges of the file being of `range_bytes` each.
  arrow::Result<Lines> rows_of(const LineRange& range, int64_t range_bytes);

 private:
  arrow::Result<CsvPlace> place_of(const LineRange& range, int64_t range_bytes);

  const std::shared_ptr<arrow::fs::FileSystem> file_system_;
  const arrow::fs::FileInfo file_;
  const arrow::csv::ParseOptions options_;
  struct Known {
    std::mutex mutex;
    std::vector<CsvPlace> places = {CsvPlace()};
  };
  const PerProcess<Known> known_;
};

}  // namespace paceline::data
