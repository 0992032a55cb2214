// Aggregates: what Dataset::aggregate() computes of all rows, with Ray Data's names.
//
// Aggregates are values, which any thread may copy; an accumulator is one call's, and of one thread. Nulls are passed
// over but where it says otherwise. NaN is a value: sums, means and standard deviations with one are NaN; Min, Max and
// AbsMax pass over it; Unique and ValueCounter take all NaN for one value. Results are the same for every cut of the
// rows into blocks, but for how sums of floating-point numbers are rounded; Mean and Std take decimals for such. Errors
// are Status values of accumulators, which aggregate() throws as ConfigError.
#pragma once

#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace paceline::data {

/// What is known of the rows so far.
class Accumulator {
 public:
  virtual ~Accumulator() = default;
  /// Adds the column's values in the next block, in the order of the rows; of no rows where the dataset has none.
  virtual arrow::Status add(const std::shared_ptr<arrow::Array>& values) = 0;
  /// Of all that was added, at least once.
  virtual arrow::Result<std::shared_ptr<arrow::Scalar>> result() const = 0;
};

/// An aggregate, such as those below; or one of the user's own.
struct Aggregate {
  std::string name;                                     ///< of the result: "sum(x)"
  std::optional<std::string> column;                    ///< that it reads; nullopt: rows alone count, as nulls
  std::function<std::unique_ptr<Accumulator>()> begin;  ///< an accumulator of nothing yet
};

/// The number of rows, as int64; "count()".
struct Count : Aggregate {
  Count();
  /// The number of a column's values; without `ignore_nulls` nulls count, too.
  explicit Count(const std::string& on, bool ignore_nulls = false);
};

/// The sum of a column: int64 or uint64 of integers, double of floating-point numbers; null where it has no values.
/// ConfigError where it is too large for its type, or the column cannot be added.
struct Sum : Aggregate {
  /// Of the column `on`.
  explicit Sum(const std::string& on);
};

/// The smallest value, of the column's type.
struct Min : Aggregate {
  /// Of the column `on`.
  explicit Min(const std::string& on);
};

/// The largest value, of the column's type.
struct Max : Aggregate {
  /// Of the column `on`.
  explicit Max(const std::string& on);
};

/// The largest absolute value: int64 of signed integers, but uint64 for the one that has none, 2^63; otherwise of the
/// column's type.
struct AbsMax : Aggregate {
  /// Of the column `on`.
  explicit AbsMax(const std::string& on);
};

/// The mean, as double; null where there are no values.
struct Mean : Aggregate {
  /// Of the column `on`.
  explicit Mean(const std::string& on);
};

/// The standard deviation, as double, with `rows - ddof` in the denominator; null where that is not positive.
struct Std : Aggregate {
  /// Of the column `on`; `ddof` is 1 for that of a sample, 0 for that of all there is.
  explicit Std(const std::string& on, int64_t ddof = 1);
};

/// The values, each once, in the order in which they come, as an arrow::ListScalar; null is one.
struct Unique : Aggregate {
  /// Of the column `on`.
  explicit Unique(const std::string& on);
};

/// The values, as of Unique, and how often each comes: an arrow::StructScalar of two lists, "values" and "counts".
struct ValueCounter : Aggregate {
  /// Of the column `on`.
  explicit ValueCounter(const std::string& on);
};

}  // namespace paceline::data
