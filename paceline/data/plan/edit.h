// Steps behind a plan that need some thought: orders by chance, parts, samples. Both languages make their datasets of
// these.
//
// Pure functions from a plan to plans, except that a seed that is not given is drawn. Nothing is read: whoever needs
// the number of rows has counted them. Invalid for what is not allowed, in the words of the user's call.
#pragma once

#include <arrow/result.h>

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "paceline/data/plan/plan.h"

namespace paceline::data {

using SharedPlan = std::shared_ptr<const Plan>;

/// A step behind `input`, and behind others if it takes several.
SharedPlan step_behind(const SharedPlan& input, std::string kind, Json options,
                       const std::vector<SharedPlan>& others = {});

/// Rows, chunks or files in another order in each epoch: `what` is "rows", "chunks" or "files". Without a seed one is
/// drawn.
SharedPlan shuffled_plan(const SharedPlan& input, const std::string& what, std::optional<int64_t> seed);
/// The first rows of the order.
arrow::Result<SharedPlan> limited_plan(const SharedPlan& input, int64_t rows);
/// About this part of the rows, each by chance.
arrow::Result<SharedPlan> sampled_plan(const SharedPlan& input, double fraction, std::optional<int64_t> seed);

/// `n` parts of `rows` rows, in order; with `equal` of equally many, and fewer than n are left out.
arrow::Result<std::vector<SharedPlan>> split_plan(const SharedPlan& input, int64_t rows, int64_t n, bool equal);
/// The rows before the first index, from there to the second, …, and from the last on.
arrow::Result<std::vector<SharedPlan>> split_plan_at(const SharedPlan& input, const std::vector<int64_t>& indices);
/// A part for each proportion of `rows`, and one for what is left, each with at least one row.
arrow::Result<std::vector<SharedPlan>> split_plan_by(const SharedPlan& input, int64_t rows,
                                                     const std::vector<double>& proportions);

/// How many rows are for tests: a part of them between 0 and 1, or their number.
class TestSize {
 public:
  /// A part.
  TestSize(double part) : value_(part) {}  // NOLINT: implicit
  /// A number.
  template <std::integral Rows>
  TestSize(Rows rows) : value_(static_cast<int64_t>(rows)) {}  // NOLINT: implicit
  const std::variant<double, int64_t>& value() const { return value_; }

 private:
  std::variant<double, int64_t> value_;
};

using TwoPlans = std::pair<SharedPlan, SharedPlan>;

/// The first rows of `rows`, and the last ones for tests; with `shuffle` they are mixed before.
arrow::Result<TwoPlans> train_and_test(const SharedPlan& input, int64_t rows, const TestSize& test_size, bool shuffle,
                                       std::optional<int64_t> seed);

/// How streaming_train_and_test() divides.
struct StreamingSplit {
  std::string split_type = "random";                      ///< by chance, or "hash": by the value of hash_column
  std::optional<std::string> hash_column = std::nullopt;  ///< rows of one value of it stay together
  std::optional<int64_t> seed = std::nullopt;             ///< of chance
};

/// Two parts without a look at the rows: each row is in one of them, in each epoch the same one.
arrow::Result<TwoPlans> streaming_train_and_test(const SharedPlan& input, double test_size,
                                                 const StreamingSplit& options);

}  // namespace paceline::data
