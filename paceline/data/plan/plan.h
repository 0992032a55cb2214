// What a dataset is: where its rows come from and what is done to them, step by step. Nothing is read until the plan
// is opened.
//
// A plan is immutable; a step holds the plan before it, so that plans share their beginnings. Each kind of step is a
// row of a table (plan.cpp), by name, with options in JSON; functions of users and rows in memory are held beside them.
// Any thread may open a plan.
#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "paceline/core/json.h"
#include "paceline/data/operator/operator.h"
#include "paceline/data/order/epoch_order.h"
#include "paceline/data/source/source.h"

namespace paceline::data {

struct Plan;

/// The plans before a step. A chain of them ends without a call within a call for each step, of which there may be more
/// than a stack has room for.
class PlanInputs : public std::vector<std::shared_ptr<const Plan>> {
 public:
  using vector::vector;
  PlanInputs(std::vector<std::shared_ptr<const Plan>> inputs) : vector(std::move(inputs)) {}  // NOLINT: as it reads
  PlanInputs(const PlanInputs&) = default;
  PlanInputs(PlanInputs&&) = default;
  PlanInputs& operator=(const PlanInputs&) = default;
  PlanInputs& operator=(PlanInputs&&) = default;
  ~PlanInputs();
};

/// How many steps may stand one behind the other.
inline constexpr int64_t kDeepestPlan = 2000;
/// Invalid where there are more: what goes through plans calls itself, and would overflow the stack.
arrow::Status check_depth(const Plan& plan);

/// The last step of a plan, with what stands before it.
struct Plan {
  std::string kind;                                       ///< a row of the table: "read_parquet", "filter"
  Json options = Json::object();                          ///< of the step, as the row says
  PlanInputs inputs;                                      ///< none where rows begin; several for a union
  std::shared_ptr<const Operator> function;               ///< of kind "function"
  std::vector<std::shared_ptr<arrow::RecordBatch>> rows;  ///< of kind "rows", whose schema is in the first
  std::shared_ptr<const Source> source;                   ///< of kind "source": the program's own
};

/// A plan that rows can be read of.
struct OpenPlan {
  std::shared_ptr<const Source> source;
  OrderOptions order;                                           ///< shuffle and seed, as the plan has them
  std::vector<std::shared_ptr<OperatorStatistics>> statistics;  ///< of each step that does something to rows
  bool calls_functions = false;                                 ///< of users, where rows begin or for each block
};

/// Finds the files, reads what is needed to know the chunks, and puts the steps together. Invalid or IOError where that
/// cannot be done, with the step's name.
arrow::Result<OpenPlan> open(const Plan& plan);

/// The steps that are taken, one a line, the first at the top: with less read than the plan says, where that makes no
/// difference (push_down.h).
std::string explain(const Plan& plan);

}  // namespace paceline::data
