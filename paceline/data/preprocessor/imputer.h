// SimpleImputer: values in the place of nulls and NaN.
//
// Threading, ownership and errors are those of Preprocessor.
#pragma once

#include <arrow/type_fwd.h>

#include <memory>
#include <string>
#include <vector>

#include "paceline/data/preprocessor/preprocessor.h"

namespace paceline::data::preprocessors {

/// What SimpleImputer fills.
struct SimpleImputerOptions {
  /// "mean": the column becomes double; "most_frequent": of several the first one; "constant": fill_value.
  std::string strategy = "mean";
  /// For "constant", and only for it. The column gets a type that holds its values and this one: a double makes
  /// integers doubles.
  std::shared_ptr<arrow::Scalar> fill_value = nullptr;
  std::vector<std::string> output_columns = {};  ///< empty for the same ones
};

/// Fills nulls and NaN. Other than in Python a column that is not there is an error. transform() throws ConfigError for
/// a column that had no values to learn from.
///
///     SimpleImputer({"age"}).fit_transform(ds);
///     SimpleImputer({"age"}, {.strategy = "constant", .fill_value = arrow::MakeScalar(int64_t{0})}).transform(ds);
class SimpleImputer : public OfColumns {
 public:
  /// Of these columns.
  explicit SimpleImputer(std::vector<std::string> columns, SimpleImputerOptions options = {});

 private:
  std::string name() const override { return "SimpleImputer"; }
  bool is_fittable() const override { return strategy_ != "constant"; }
  Json arguments() const override;
  std::string refusal(const arrow::DataType& type) const override;
  AggregateResults learn(const Dataset& dataset) override;
  Dataset with_output(const Dataset& dataset, const std::string& column, const std::string& output) const override;

  std::string strategy_;
  std::shared_ptr<arrow::Scalar> fill_value_;
};

}  // namespace paceline::data::preprocessors
