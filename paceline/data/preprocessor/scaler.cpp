#include "paceline/data/preprocessor/scaler.h"

#include <arrow/compute/cast.h>
#include <arrow/scalar.h>
#include <arrow/type.h>

#include <limits>
#include <optional>

#include "paceline/core/error.h"

namespace paceline::data::preprocessors {
namespace {

namespace compute = arrow::compute;

constexpr double kTiny = 1e-8;  // what is smaller is no spread

std::string refusal_of(const arrow::DataType& type) {
  return refuse_but_numbers(type, "make it numbers first, as with OrdinalEncoder or a cast, or leave it out");
}

// nullopt where there was nothing to learn from.
std::optional<double> as_double(const std::shared_ptr<arrow::Scalar>& value, const std::string& column) {
  const arrow::Type::type type = value->type->id();
  if (!arrow::is_numeric(type) && !arrow::is_decimal(type) && type != arrow::Type::BOOL) {
    throw ConfigError("the column '" + column + "' has " + value->type->ToString() + "; wanted: numbers");
  }
  if (!value->is_valid) return std::nullopt;
  const auto nearest = compute::CastOptions::Unsafe();  // of integers beyond 2^53
  return value_or_throw(compute::Cast(value, arrow::float64(), nearest)).scalar_as<arrow::DoubleScalar>().value;
}

// The column less `offset`, in parts of `unit`.
compute::Expression scaled(const std::string& column, double offset, double unit) {
  const auto apart = compute::call("subtract", {as_doubles(column), compute::literal(offset)});
  return compute::call("divide", {apart, compute::literal(unit)});
}

compute::Expression unknown(const std::string& column) {
  return scaled(column, std::numeric_limits<double>::quiet_NaN(), 1);
}

}  // namespace

StandardScaler::StandardScaler(std::vector<std::string> columns, std::vector<std::string> output_columns)
    : OfColumns("StandardScaler", std::move(columns), std::move(output_columns)) {}

std::string StandardScaler::refusal(const arrow::DataType& type) const {
  return refusal_of(type);
}

AggregateResults StandardScaler::learn(const Dataset& dataset) {
  std::vector<Aggregate> of;
  for (const std::string& column : columns()) of.insert(of.end(), {Mean(column), Std(column, /*ddof=*/0)});
  return without_nan(dataset, columns()).aggregate(of);
}

Dataset StandardScaler::with_output(const Dataset& dataset, const std::string& column,
                                    const std::string& output) const {
  const auto mean = as_double(stat("mean", column), column);
  const auto std = as_double(stat("std", column), column);
  if (!mean || !std) return with_numbers(dataset, column, output, unknown(column));
  return with_numbers(dataset, column, output, scaled(column, *mean, *std < kTiny ? 1 : *std));
}

MinMaxScaler::MinMaxScaler(std::vector<std::string> columns, std::vector<std::string> output_columns)
    : OfColumns("MinMaxScaler", std::move(columns), std::move(output_columns)) {}

std::string MinMaxScaler::refusal(const arrow::DataType& type) const {
  return refusal_of(type);
}

AggregateResults MinMaxScaler::learn(const Dataset& dataset) {
  std::vector<Aggregate> of;
  for (const std::string& column : columns()) of.insert(of.end(), {Min(column), Max(column)});
  AggregateResults learnt = dataset.aggregate(of);
  for (const std::string& column : columns()) as_double(learnt.at("min(" + column + ")"), column);
  return learnt;
}

Dataset MinMaxScaler::with_output(const Dataset& dataset, const std::string& column, const std::string& output) const {
  const auto least = as_double(stat("min", column), column);
  const auto greatest = as_double(stat("max", column), column);
  if (!least || !greatest) return with_numbers(dataset, column, output, unknown(column));
  const double spread = *greatest - *least;
  return with_numbers(dataset, column, output, scaled(column, *least, spread < kTiny ? 1 : spread));
}

MaxAbsScaler::MaxAbsScaler(std::vector<std::string> columns, std::vector<std::string> output_columns)
    : OfColumns("MaxAbsScaler", std::move(columns), std::move(output_columns)) {}

std::string MaxAbsScaler::refusal(const arrow::DataType& type) const {
  return refusal_of(type);
}

AggregateResults MaxAbsScaler::learn(const Dataset& dataset) {
  std::vector<Aggregate> of;
  for (const std::string& column : columns()) of.push_back(AbsMax(column));
  return dataset.aggregate(of);
}

Dataset MaxAbsScaler::with_output(const Dataset& dataset, const std::string& column, const std::string& output) const {
  const auto greatest = as_double(stat("abs_max", column), column);
  if (!greatest) return with_numbers(dataset, column, output, unknown(column));
  return with_numbers(dataset, column, output, scaled(column, 0, *greatest == 0 ? 1 : *greatest));
}

}  // namespace paceline::data::preprocessors
