#include "paceline/data/preprocessor/concatenator.h"

#include <arrow/scalar.h>
#include <arrow/type.h>

#include "paceline/core/error.h"
#include "paceline/data/plan/steps_internal.h"

namespace paceline::data::preprocessors {

Concatenator::Concatenator(std::vector<std::string> columns, ConcatenatorOptions options)
    : columns_(std::move(columns)), options_(std::move(options)) {
  if (columns_.empty()) throw ConfigError("Concatenator: there are no columns");
  if (options_.dtype != nullptr && !arrow::is_numeric(options_.dtype->id())) {
    throw ConfigError("Concatenator: dtype is " + options_.dtype->ToString() + "; wanted: a type of numbers");
  }
}

Dataset Concatenator::made_of(const Dataset& dataset) const {
  Json step{{"columns", columns_}, {"name", options_.output_column_name}, {"flatten", options_.flatten}};
  if (options_.dtype != nullptr) {
    step["type"] = value_or_throw(option_of(arrow::compute::literal(arrow::MakeNullScalar(options_.dtype))));
  }
  return dataset.step("concatenate", std::move(step));
}

}  // namespace paceline::data::preprocessors
