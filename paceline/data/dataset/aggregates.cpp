// What Dataset computes of all rows, in one pass over the columns that it needs.
#include <arrow/array.h>
#include <arrow/compute/initialize.h>
#include <arrow/record_batch.h>
#include <arrow/scalar.h>
#include <arrow/type.h>

#include <algorithm>

#include "paceline/core/error.h"
#include "paceline/data/dataset/dataset.h"

namespace paceline::data {
namespace {

// As the user has called it: mean("x").
std::string call_of(const Aggregate& aggregate) {
  if (!aggregate.column) return aggregate.name;
  return aggregate.name.substr(0, aggregate.name.find('(')) + "(\"" + *aggregate.column + "\")";
}

void throw_if_failed(const Aggregate& aggregate, const arrow::Status& status) {
  const std::string message = call_of(aggregate) + ": " + status.message();
  // Arrow's words for a column of another type.
  if (status.IsNotImplemented() || status.IsTypeError()) throw ConfigError(message);
  if (!status.ok()) throw_if_error(status.WithMessage(message));
}

// As Ray numbers them.
std::string free_name(const std::string& name, const AggregateResults& taken) {
  std::string free = name;
  for (int number = 2; taken.contains(free); ++number) free = name + "_" + std::to_string(number);
  return free;
}

std::optional<double> number_or_nothing(const arrow::Scalar& value) {
  if (!value.is_valid) return std::nullopt;
  return static_cast<const arrow::DoubleScalar&>(value).value;
}

}  // namespace

AggregateResults Dataset::aggregate(const std::vector<Aggregate>& aggregates) const {
  static const arrow::Status kInitialized = arrow::compute::Initialize();
  throw_if_error(kInitialized);
  std::vector<std::string> columns;
  std::vector<std::unique_ptr<Accumulator>> accumulators;
  for (const Aggregate& one : aggregates) {
    accumulators.push_back(one.begin == nullptr ? nullptr : one.begin());
    if (accumulators.back() == nullptr) {
      throw ConfigError("the aggregate '" + one.name + "' has no accumulator: its function begin makes none");
    }
    if (one.column && std::ranges::find(columns, *one.column) == columns.end()) columns.push_back(*one.column);
  }
  const auto add = [&](const arrow::ArrayVector& block, int64_t rows) {
    for (size_t i = 0; i < aggregates.size(); ++i) {
      const Aggregate& one = aggregates[i];
      const auto place = one.column ? std::ranges::find(columns, *one.column) - columns.begin() : 0;
      const std::shared_ptr<arrow::Array> values =
          one.column ? block[static_cast<size_t>(place)] : std::make_shared<arrow::NullArray>(rows);
      throw_if_failed(one, accumulators[i]->add(values));
    }
  };
  if (columns.empty()) {
    add({}, aggregates.empty() ? 0 : count());
  } else {
    const Dataset chosen = select_columns(columns);
    bool has_blocks = false;
    chosen.for_each_block([&](const auto& block) {
      add(block->columns(), block->num_rows());
      return has_blocks = true;
    });
    if (!has_blocks) add(value_or_throw(arrow::RecordBatch::MakeEmpty(chosen.schema()))->columns(), 0);
  }
  AggregateResults results;
  for (size_t i = 0; i < aggregates.size(); ++i) {
    auto result = accumulators[i]->result();
    throw_if_failed(aggregates[i], result.status());
    results.emplace(free_name(aggregates[i].name, results), std::move(result).ValueUnsafe());
  }
  return results;
}

std::shared_ptr<arrow::Scalar> Dataset::only(const Aggregate& aggregate) const {
  return this->aggregate({aggregate}).begin()->second;
}

std::shared_ptr<arrow::Scalar> Dataset::sum(const std::string& column) const {
  return only(Sum(column));
}

std::shared_ptr<arrow::Scalar> Dataset::min(const std::string& column) const {
  return only(Min(column));
}

std::shared_ptr<arrow::Scalar> Dataset::max(const std::string& column) const {
  return only(Max(column));
}

std::optional<double> Dataset::mean(const std::string& column) const {
  return number_or_nothing(*only(Mean(column)));
}

std::optional<double> Dataset::std(const std::string& column, int64_t ddof) const {
  return number_or_nothing(*only(Std(column, ddof)));
}

std::shared_ptr<arrow::Array> Dataset::unique(const std::string& column) const {
  return static_cast<const arrow::ListScalar&>(*only(Unique(column))).value;
}

}  // namespace paceline::data
