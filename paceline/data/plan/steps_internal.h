// What stands between the readers and the rows that a user gets: the steps there are, a row each.
#pragma once

#include <arrow/compute/expression.h>
#include <arrow/result.h>

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "paceline/data/plan/plan.h"
#include "paceline/data/plan/wanted_internal.h"

namespace paceline::data {

/// A step that does something to each block.
struct OperatorStep {
  std::string_view kind;  ///< Plan::kind
  /// May throw Json::exception for options of another type.
  arrow::Result<std::shared_ptr<const Operator>> (*make)(const Plan& plan);
  /// What it wants of its input where `wanted` is wanted of it; a null pointer for all. May throw as make() may.
  Wanted (*pass)(const Plan& plan, Wanted wanted);
};

/// A step that makes one source of its inputs': in another order, fewer rows, several inputs as one.
struct SourceStep {
  std::string_view kind;  ///< Plan::kind
  std::string_view name;  ///< as plans show it
  bool takes_several;     ///< inputs; otherwise one
  /// It takes a part of the rows by where they stand: so its inputs are opened such that a row stands in the same place
  /// in every epoch.
  bool takes_part;
  /// Makes it of its opened inputs. `stays`: whether a step behind it takes such a part. May throw Json::exception for
  /// options of another type.
  arrow::Result<OpenPlan> (*open)(const Plan& plan, std::vector<OpenPlan> inputs, bool stays);
  Wanted (*pass)(const Plan& plan, Wanted wanted);  ///< as of OperatorStep
};

std::span<const OperatorStep> operator_steps();
std::span<const SourceStep> source_steps();

/// The row of `kind`, or a null pointer.
template <typename Row>
const Row* row_of(std::span<const Row> rows, std::string_view kind) {
  for (const Row& row : rows) {
    if (row.kind == kind) return &row;
  }
  return nullptr;
}

/// The expression that an option holds: Arrow's own format in base64.
arrow::Result<arrow::compute::Expression> expression_of(const Json& option);
/// An option that holds the expression.
arrow::Result<Json> option_of(const arrow::compute::Expression& expression);

}  // namespace paceline::data
