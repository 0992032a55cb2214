// Columns and types of files of lines, in which nothing says them: what is found in samples of the files, as one.
//
// Types are those in which all values of all samples fit, as though these were one file: numbers with and without
// fractions are numbers with them, days and times are times, and of CSV, where each value is a text, anything is one.
// A column that a sample does not have is null there. Pure functions, but for notices.
#pragma once

#include <arrow/filesystem/type_fwd.h>
#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <memory>
#include <string>
#include <vector>

#include "paceline/data/format/line_ranges_internal.h"

namespace paceline::data {

/// What is in a sample.
struct SampledColumns {
  std::shared_ptr<arrow::Schema> schema;  ///< a null pointer where it cannot be read
  std::string path;
};

/// How samples become one.
struct SamplesOptions {
  bool are_texts = false;          ///< values of any kinds together are texts, which a notice says; else an error
  bool forgive = false;            ///< where types do not go together, the first stays: others are bad rows
  bool new_columns = true;         ///< those that the first sample does not have are added; else left out
  std::vector<std::string> given;  ///< columns whose types are not wanted
};

/// The columns of all samples, in the order in which they first appear. Invalid where the types of one do not go
/// together, or a sample has a column twice.
arrow::Result<std::shared_ptr<arrow::Schema>> columns_of_samples(const std::vector<SampledColumns>& samples,
                                                                 const SamplesOptions& options);

/// How columns differ from those that are wanted: "the column 'x' is double there; wanted: int64". Empty where all fit.
std::string differences(const arrow::Schema& found, const arrow::Schema& wanted);

/// The beginnings of so many files are looked at; of more, so many are chosen.
inline constexpr size_t kMostBeginnings = 1024;
/// Blocks all over the files that show what is in them: beginnings, and some that lie behind. `first_file`, whose
/// beginning is known, and files before it are left out.
std::vector<LineRange> blocks_to_sample(const std::vector<arrow::fs::FileInfo>& files, int64_t first_file);
/// What to read of the beginning of each file, if there are so many.
int64_t bytes_of_beginnings(size_t blocks);

}  // namespace paceline::data
