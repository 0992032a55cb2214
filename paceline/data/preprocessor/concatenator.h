// Concatenator: several columns as one of arrays.
//
// Threading, ownership and errors are those of Preprocessor.
#pragma once

#include <arrow/type_fwd.h>

#include <memory>
#include <string>
#include <vector>

#include "paceline/data/preprocessor/preprocessor.h"

namespace paceline::data::preprocessors {

/// How Concatenator makes arrays.
struct ConcatenatorOptions {
  std::string output_column_name = "concat_out";     ///< the new column, a fixed-size list: a tensor of one dimension
  std::shared_ptr<arrow::DataType> dtype = nullptr;  ///< of the numbers; a null pointer: one that holds those of all
  bool flatten = false;                              ///< columns of fixed-size lists are put one behind the other, too
};

/// An array for each row, of the values of several columns of numbers, which go. There is nothing to learn. Null is NaN
/// in arrays of floating-point numbers. Those of integers cut fractions off, -1.7 is -1; nulls, NaN and infinite
/// numbers are errors there. So are, everywhere, numbers that are too large or too small for `dtype`, and, other than
/// in Python's default, a column that is not there.
///
///     Concatenator({"height", "weight"}, {.output_column_name = "features", .dtype = arrow::float32()}).transform(ds);
class Concatenator : public Preprocessor {
 public:
  /// Of these columns.
  explicit Concatenator(std::vector<std::string> columns, ConcatenatorOptions options = {});

 private:
  std::string name() const override { return "Concatenator"; }
  bool is_fittable() const override { return false; }
  Json arguments() const override { return {{"columns", columns_}}; }
  AggregateResults learn(const Dataset&) override { return {}; }
  Dataset made_of(const Dataset& dataset) const override;

  std::vector<std::string> columns_;
  ConcatenatorOptions options_;
};

}  // namespace paceline::data::preprocessors
