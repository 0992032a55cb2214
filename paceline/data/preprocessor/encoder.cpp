#include "paceline/data/preprocessor/encoder.h"

#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/compute/api.h>
#include <arrow/scalar.h>
#include <arrow/type.h>

#include <algorithm>
#include <numeric>

#include "paceline/core/error.h"
#include "paceline/data/plan/steps_internal.h"

namespace paceline::data::preprocessors {
namespace {

namespace compute = arrow::compute;

std::shared_ptr<arrow::Array> list_in(const arrow::StructScalar& counter, size_t field) {
  return static_cast<const arrow::ListScalar&>(*counter.value[field]).value;
}

// The values, or the most frequent ones of them, in their order. `most`: negative for all.
arrow::Result<std::shared_ptr<arrow::Scalar>> sorted_values(const arrow::StructScalar& counter,
                                                            const std::string& column, int64_t most) {
  std::shared_ptr<arrow::Array> values = list_in(counter, 0);
  ARROW_ASSIGN_OR_RAISE(const arrow::Datum missing, compute::IsNull(values, compute::NullOptions(true)));
  if (missing.array_as<arrow::BooleanArray>()->true_count() > 0) {
    return arrow::Status::Invalid("the column '", column,
                                  "' has nulls; fill them first, as with SimpleImputer, or filter them");
  }
  if (most >= 0 && most < values->length()) {
    const auto list = list_in(counter, 1);
    const auto& counts = static_cast<const arrow::Int64Array&>(*list);
    std::vector<int64_t> places(static_cast<size_t>(counts.length()));
    std::iota(places.begin(), places.end(), 0);
    std::ranges::stable_sort(places, std::greater(), [&](int64_t place) { return counts.Value(place); });
    arrow::Int64Builder chosen;
    ARROW_RETURN_NOT_OK(chosen.AppendValues(places.data(), most));
    ARROW_ASSIGN_OR_RAISE(const auto indices, chosen.Finish());
    ARROW_ASSIGN_OR_RAISE(values, compute::Take(*values, *indices));
  }
  ARROW_ASSIGN_OR_RAISE(const auto order, compute::SortIndices(*values));
  ARROW_ASSIGN_OR_RAISE(values, compute::Take(*values, *order));
  return std::make_shared<arrow::ListScalar>(std::move(values));
}

}  // namespace

OfCategories::OfCategories(const std::string& name, std::vector<std::string> columns,
                           std::vector<std::string> output_columns, Encoding encoding,
                           std::map<std::string, int64_t> max_categories)
    : OfColumns(name, std::move(columns), std::move(output_columns)),
      encoding_(encoding),
      max_categories_(std::move(max_categories)) {
  for (const auto& [column, most] : max_categories_) {
    if (std::ranges::find(this->columns(), column) == this->columns().end()) {
      throw ConfigError(name + ": max_categories names '" + column + "', which is none of the columns");
    }
    if (most < 1) {
      throw ConfigError(name + ": max_categories of '" + column + "' is " + std::to_string(most) +
                        "; allowed: a number from 1");
    }
  }
}

Json OfCategories::arguments() const {
  Json all = OfColumns::arguments();
  if (!max_categories_.empty()) all["max_categories"] = max_categories_;
  return all;
}

AggregateResults OfCategories::learn(const Dataset& dataset) {
  std::vector<Aggregate> of;
  for (const std::string& column : columns()) of.push_back(ValueCounter(column));
  const AggregateResults counted = dataset.aggregate(of);
  AggregateResults learnt;
  for (const std::string& column : columns()) {
    const auto& counter = static_cast<const arrow::StructScalar&>(*counted.at("value_counter(" + column + ")"));
    const auto most = max_categories_.find(column);
    learnt["unique_values(" + column + ")"] =
        value_or_throw(sorted_values(counter, column, most == max_categories_.end() ? -1 : most->second));
  }
  return learnt;
}

Dataset OfCategories::with_output(const Dataset& dataset, const std::string& column, const std::string& output) const {
  return encoded(dataset, column, output, column, encoding_);
}

Dataset OfCategories::encoded(const Dataset& dataset, const std::string& column, const std::string& output,
                              const std::string& of, Encoding encoding) const {
  const auto& learnt = stat("unique_values", of);
  const auto* const list = dynamic_cast<const arrow::ListScalar*>(learnt.get());
  if (encoding == Encoding::one_hot && list != nullptr && list->value->length() == 0) {
    throw ConfigError("the column '" + of + "' had no values to learn from, so rows of it would be arrays of nothing");
  }
  const Json values = value_or_throw(option_of(compute::literal(learnt)));
  return dataset.step(
      "encode_categories",
      {{"column", column}, {"name", output}, {"values", values}, {"encoding", static_cast<int>(encoding)}});
}

OrdinalEncoder::OrdinalEncoder(std::vector<std::string> columns, std::vector<std::string> output_columns)
    : OfCategories("OrdinalEncoder", std::move(columns), std::move(output_columns), Encoding::place) {}

LabelEncoder::LabelEncoder(const std::string& label_column, const std::string& output_column)
    : OrdinalEncoder(std::vector{label_column}, std::vector{output_column.empty() ? label_column : output_column}) {}

Dataset LabelEncoder::inverse_transform(const Dataset& dataset) const {
  check_fitted();
  const std::string& label = columns().front();
  return encoded(dataset, output_columns().front(), label, label, Encoding::inverse);
}

OneHotEncoder::OneHotEncoder(std::vector<std::string> columns, std::map<std::string, int64_t> max_categories,
                             std::vector<std::string> output_columns)
    : OfCategories("OneHotEncoder", std::move(columns), std::move(output_columns), Encoding::one_hot,
                   std::move(max_categories)) {}

}  // namespace paceline::data::preprocessors
