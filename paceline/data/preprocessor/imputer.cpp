#include "paceline/data/preprocessor/imputer.h"

#include <arrow/array.h>
#include <arrow/compute/cast.h>
#include <arrow/scalar.h>
#include <arrow/type.h>

#include "paceline/core/error.h"
#include "paceline/data/plan/steps_internal.h"

namespace paceline::data::preprocessors {
namespace {

namespace compute = arrow::compute;

// The first one of those that come most often; null where there is none.
std::shared_ptr<arrow::Scalar> most_frequent(const arrow::StructScalar& counter) {
  const auto& values = *static_cast<const arrow::ListScalar&>(*counter.value[0]).value;
  const auto& list = *static_cast<const arrow::ListScalar&>(*counter.value[1]).value;
  const auto& counts = static_cast<const arrow::Int64Array&>(list);
  int64_t found = -1;
  for (int64_t place = 0; place < values.length(); ++place) {
    if (values.IsValid(place) && (found < 0 || counts.Value(place) > counts.Value(found))) found = place;
  }
  return found < 0 ? arrow::MakeNullScalar(values.type()) : value_or_throw(values.GetScalar(found));
}

}  // namespace

SimpleImputer::SimpleImputer(std::vector<std::string> columns, SimpleImputerOptions options)
    : OfColumns("SimpleImputer", std::move(columns), std::move(options.output_columns)),
      strategy_(std::move(options.strategy)),
      fill_value_(std::move(options.fill_value)) {
  if (strategy_ != "mean" && strategy_ != "most_frequent" && strategy_ != "constant") {
    throw ConfigError("strategy is '" + strategy_ + "'; allowed: 'mean', 'most_frequent', 'constant'");
  }
  if (strategy_ == "constant" && (fill_value_ == nullptr || !fill_value_->is_valid)) {
    throw ConfigError("the strategy 'constant' needs a fill_value");
  }
  if (strategy_ != "constant" && fill_value_ != nullptr) {
    throw ConfigError("SimpleImputer: fill_value is for the strategy 'constant'; the strategy is '" + strategy_ + "'");
  }
}

Json SimpleImputer::arguments() const {
  Json all = OfColumns::arguments();
  all["strategy"] = strategy_;
  return all;
}

std::string SimpleImputer::refusal(const arrow::DataType& type) const {
  if (strategy_ != "mean") return "";
  return refuse_but_numbers(type, "take the strategy 'most_frequent' or 'constant' for it");
}

AggregateResults SimpleImputer::learn(const Dataset& dataset) {
  std::vector<Aggregate> of;
  for (const std::string& column : columns()) {
    of.push_back(strategy_ == "mean" ? Aggregate(Mean(column)) : Aggregate(ValueCounter(column)));
  }
  const AggregateResults found = without_nan(dataset, columns()).aggregate(of);
  if (strategy_ == "mean") return found;
  AggregateResults learnt;
  const auto schema = dataset.schema();
  for (const std::string& column : columns()) {
    const auto& counter = static_cast<const arrow::StructScalar&>(*found.at("value_counter(" + column + ")"));
    auto value = most_frequent(counter);
    const auto field = schema->GetFieldByName(column);
    if (field->type()->id() == arrow::Type::HALF_FLOAT) {  // which are counted as doubles
      value = value_or_throw(compute::Cast(value, field->type())).scalar();
    }
    learnt["most_frequent(" + column + ")"] = std::move(value);
  }
  return learnt;
}

Dataset SimpleImputer::with_output(const Dataset& dataset, const std::string& column, const std::string& output) const {
  const auto& value = strategy_ == "constant" ? fill_value_ : stat(strategy_, column);
  if (!value->is_valid) {
    throw ConfigError("the column '" + column +
                      "' had no values to learn from, so there is nothing to fill its nulls with");
  }
  if (strategy_ == "mean") {
    const auto filled = compute::call("if_else", {is_missing(column), compute::literal(value), as_doubles(column)});
    return with_numbers(dataset, column, output, filled);
  }
  const Json option = value_or_throw(option_of(compute::literal(value)));
  return dataset.step("fill_missing", {{"column", column}, {"name", output}, {"value", option}});
}

}  // namespace paceline::data::preprocessors
