// What Dataset computes of all rows of a column, in one pass.
#include <arrow/array.h>
#include <arrow/array/concatenate.h>
#include <arrow/compute/api.h>
#include <arrow/compute/initialize.h>
#include <arrow/record_batch.h>
#include <arrow/scalar.h>
#include <arrow/type.h>

#include <cmath>

#include "paceline/core/error.h"
#include "paceline/data/dataset/dataset.h"

namespace paceline::data {
namespace {

namespace compute = arrow::compute;

using Value = arrow::Result<arrow::Datum>;
using Values = std::shared_ptr<arrow::Array>;

void initialize() {
  static const arrow::Status kInitialized = compute::Initialize();
  throw_if_error(kInitialized);
}

// The error of a call of the user's.
template <typename T>
T value_of(const char* call, const std::string& column, arrow::Result<T> result) {
  if (!result.ok()) {
    throw_if_error(result.status().WithMessage(call, "(\"", column, "\"): ", result.status().message()));
  }
  return std::move(result).ValueUnsafe();
}

Value sum_of(const Values& values) {
  return compute::Sum(values);
}

Value added(const arrow::Datum& a, const arrow::Datum& b) {
  return compute::Add(a, b, compute::ArithmeticOptions(/*check_overflow=*/true));
}

Value extreme_of(const Values& values, int which) {
  ARROW_ASSIGN_OR_RAISE(const arrow::Datum both, compute::MinMax(values));
  return arrow::Datum(both.scalar_as<arrow::StructScalar>().value[static_cast<size_t>(which)]);
}

// Rows without null, their mean, and the sum of the squares of what they are off it.
struct Moments {
  double rows = 0;
  double mean = 0;
  double squares = 0;
};

arrow::Result<double> number_in(Value value) {
  ARROW_RETURN_NOT_OK(value);
  if (!value->scalar()->is_valid) return 0.0;
  ARROW_ASSIGN_OR_RAISE(const auto number, value->scalar()->CastTo(arrow::float64()));
  return static_cast<const arrow::DoubleScalar&>(*number).value;
}

arrow::Result<Moments> moments_of(const Values& values, bool with_squares) {
  Moments moments{.rows = static_cast<double>(values->length() - values->null_count())};
  if (moments.rows == 0) return moments;
  ARROW_ASSIGN_OR_RAISE(moments.mean, number_in(compute::Mean(values)));
  if (!with_squares) return moments;
  ARROW_ASSIGN_OR_RAISE(const double variance, number_in(compute::Variance(values, compute::VarianceOptions(0))));
  moments.squares = variance * moments.rows;
  return moments;
}

// Of both together (Chan and others, "Updating Formulae", 1979).
Moments together(const Moments& a, const Moments& b) {
  if (a.rows == 0 || b.rows == 0) return a.rows == 0 ? b : a;
  const double rows = a.rows + b.rows;
  const double off = b.mean - a.mean;
  return {.rows = rows,
          .mean = a.mean + off * b.rows / rows,
          .squares = a.squares + b.squares + off * off * a.rows * b.rows / rows};
}

}  // namespace

void Dataset::for_each_part(const std::string& column,
                            const std::function<void(const std::shared_ptr<arrow::Array>&)>& visit) const {
  initialize();
  select_columns({column}).for_each_block([&](const auto& block) {
    visit(block->column(0));
    return true;
  });
}

std::shared_ptr<arrow::Scalar> Dataset::folded(
    const char* call, const std::string& column, const std::function<Value(const Values&)>& of_block,
    const std::function<Value(const arrow::Datum&, const arrow::Datum&)>& together) const {
  std::optional<arrow::Datum> all;
  for_each_part(column, [&](const Values& values) {
    arrow::Datum some = value_of(call, column, of_block(values));
    if (!some.scalar()->is_valid) return;
    all = all ? value_of(call, column, together(*all, some)) : some;
  });
  if (!all) {  // the null of its type
    const auto type = select_columns({column}).schema()->field(0)->type();
    all = value_of(call, column, of_block(value_or_throw(arrow::MakeEmptyArray(type))));
  }
  return all->scalar();
}

std::shared_ptr<arrow::Scalar> Dataset::sum(const std::string& column) const {
  return folded("sum", column, sum_of, added);
}

std::shared_ptr<arrow::Scalar> Dataset::min(const std::string& column) const {
  return folded(
      "min", column, [](const Values& values) { return extreme_of(values, 0); },
      [](const arrow::Datum& a, const arrow::Datum& b) { return compute::MinElementWise({a, b}); });
}

std::shared_ptr<arrow::Scalar> Dataset::max(const std::string& column) const {
  return folded(
      "max", column, [](const Values& values) { return extreme_of(values, 1); },
      [](const arrow::Datum& a, const arrow::Datum& b) { return compute::MaxElementWise({a, b}); });
}

std::optional<double> Dataset::mean(const std::string& column) const {
  Moments all;
  for_each_part(
      column, [&](const Values& values) { all = together(all, value_of("mean", column, moments_of(values, false))); });
  return all.rows > 0 ? std::optional(all.mean) : std::nullopt;
}

std::optional<double> Dataset::std(const std::string& column, int64_t ddof) const {
  Moments all;
  for_each_part(column,
                [&](const Values& values) { all = together(all, value_of("std", column, moments_of(values, true))); });
  const double rows = all.rows - static_cast<double>(ddof);
  return rows > 0 ? std::optional(std::sqrt(all.squares / rows)) : std::nullopt;
}

std::shared_ptr<arrow::Array> Dataset::unique(const std::string& column) const {
  Values all;
  for_each_part(column, [&](const Values& values) {
    const auto some = value_of("unique", column, compute::Unique(values));
    all = all == nullptr ? some
                         : value_of("unique", column, compute::Unique(value_or_throw(arrow::Concatenate({all, some}))));
  });
  if (all != nullptr) return all;
  return value_or_throw(arrow::MakeEmptyArray(select_columns({column}).schema()->field(0)->type()));
}

}  // namespace paceline::data
