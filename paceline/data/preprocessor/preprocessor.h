// Preprocessors: what is learnt from one dataset and done to the rows of others, with Ray Data's names.
//
// Values: copies have learnt the same and learn apart. fit() is for one thread at a time, transform() for any number.
// fit() reads its dataset once; transform() reads nothing: it puts steps behind its dataset, which travel to the
// process that reads it. Errors: UsageError for transform() before fit(); ConfigError for arguments that are not
// allowed, and for columns that are missing or have other values than a preprocessor can take, for transform() when
// rows are wanted.
#pragma once

#include <arrow/compute/expression.h>

#include <string>
#include <vector>

#include "paceline/core/json.h"
#include "paceline/data/dataset/dataset.h"

namespace paceline::data::preprocessors {

/// Whether a preprocessor has learnt.
enum class FitStatus {
  not_fittable,      ///< there is nothing to learn
  not_fitted,        ///< fit() was not called yet
  partially_fitted,  ///< a chain of which some have learnt
  fitted
};

/// The base of all.
///
///     StandardScaler scaler({"x"});
///     const Dataset train = scaler.fit_transform(read_parquet("train/"));
///     const Dataset test = scaler.transform(read_parquet("test/"));
///     checkpoint.update_metadata({{"scaler", scaler.state()}});  // for load_state() of another StandardScaler({"x"})
class Preprocessor {
 public:
  virtual ~Preprocessor() = default;
  /// Whether it has learnt.
  virtual FitStatus fit_status() const;
  /// Learns from a dataset; what it had learnt before is forgotten. Gives itself.
  Preprocessor& fit(const Dataset& dataset);
  /// The dataset as it makes it.
  Dataset transform(const Dataset& dataset) const;
  /// transform() of what it learns from.
  Dataset fit_transform(const Dataset& dataset);
  /// What it has learnt, as Ray's stats_: "mean(x)", "unique_values(x)".
  const AggregateResults& stats() const { return stats_; }
  /// The same as JSON, exactly, with the arguments it was learnt with. UsageError before fit().
  virtual Json state() const;
  /// Learns what another one of the same columns and arguments has learnt; its output columns may be others.
  /// ConfigError where it is no state of such a one: then what it had learnt before stays.
  virtual void load_state(const Json& state);
  /// ConfigError where load_state() would throw it.
  virtual void check_state(const Json& state) const;

 protected:
  /// Its class.
  virtual std::string name() const = 0;
  /// Whether there is anything to learn.
  virtual bool is_fittable() const { return true; }
  /// What is learnt from a dataset.
  virtual AggregateResults learn(const Dataset& dataset) = 0;
  /// The dataset as it makes it, once it has learnt.
  virtual Dataset made_of(const Dataset& dataset) const = 0;
  /// The arguments that decide what it learns: states of others are refused.
  virtual Json arguments() const { return Json::object(); }
  /// ConfigError where it cannot learn from such columns. Called when it could not, to say why.
  virtual void check_schema(const arrow::Schema&) const {}
  /// UsageError where it has not learnt.
  void check_fitted() const;

 private:
  // What the state has learnt, or ConfigError.
  AggregateResults stats_in(const Json& state) const;

  AggregateResults stats_;
  bool is_fitted_ = false;
};

/// One that makes a column of each of its columns, in its place or as one of the output columns.
class OfColumns : public Preprocessor {
 public:
  /// The columns that it reads.
  const std::vector<std::string>& columns() const { return columns_; }
  /// The columns that it makes, one for each.
  const std::vector<std::string>& output_columns() const { return output_columns_; }

 protected:
  /// `output_columns`: empty for the same ones.
  OfColumns(const std::string& name, std::vector<std::string> columns, std::vector<std::string> output_columns);
  Dataset made_of(const Dataset& dataset) const override;
  /// The dataset with the column `output`, made of `column`.
  virtual Dataset with_output(const Dataset& dataset, const std::string& column, const std::string& output) const = 0;
  Json arguments() const override { return {{"columns", columns_}}; }
  void check_schema(const arrow::Schema& schema) const override;
  /// Why it cannot learn from a column of this type: what is wanted, and what to do. Empty where it can.
  virtual std::string refusal(const arrow::DataType&) const { return ""; }
  /// The statistic `kind(column)`, which has been learnt.
  const std::shared_ptr<arrow::Scalar>& stat(const std::string& kind, const std::string& column) const;

 private:
  std::vector<std::string> columns_;
  std::vector<std::string> output_columns_;
};

/// OfColumns::refusal() of one that learns from numbers; `instead`: what to do with other columns.
std::string refuse_but_numbers(const arrow::DataType& type, const std::string& instead);
/// The dataset with the column `output` of value `value`, where `column` has to be one of numbers.
Dataset with_numbers(const Dataset& dataset, const std::string& column, const std::string& output,
                     const arrow::compute::Expression& value);
/// The column as doubles; of texts, too, which with_numbers() refuses.
arrow::compute::Expression as_doubles(const std::string& column);
/// Whether the column's value is null or NaN.
arrow::compute::Expression is_missing(const std::string& column);
/// The dataset with null for NaN in these columns: what is learnt passes over both.
Dataset without_nan(const Dataset& dataset, const std::vector<std::string>& columns);

}  // namespace paceline::data::preprocessors
