#include "paceline/data/preprocessor/preprocessor.h"

#include <arrow/compute/api.h>
#include <arrow/scalar.h>
#include <arrow/type.h>

#include <algorithm>

#include "paceline/core/error.h"
#include "paceline/data/operator/exact_numbers_internal.h"
#include "paceline/data/plan/steps_internal.h"
#include "paceline/data/schema/missing_column_internal.h"

namespace paceline::data::preprocessors {

namespace compute = arrow::compute;

FitStatus Preprocessor::fit_status() const {
  if (!is_fittable()) return FitStatus::not_fittable;
  return is_fitted_ ? FitStatus::fitted : FitStatus::not_fitted;
}

Preprocessor& Preprocessor::fit(const Dataset& dataset) {
  if (fit_status() == FitStatus::not_fittable) return *this;
  try {
    stats_ = learn(dataset);
  } catch (const ConfigError&) {
    // It comes from a step inside, which knows neither this preprocessor nor columns that are not wanted of it.
    check_schema(*dataset.schema());
    throw;
  }
  is_fitted_ = true;
  return *this;
}

Dataset Preprocessor::transform(const Dataset& dataset) const {
  check_fitted();
  return made_of(dataset);
}

Dataset Preprocessor::fit_transform(const Dataset& dataset) {
  return fit(dataset).transform(dataset);
}

void Preprocessor::check_fitted() const {
  const FitStatus status = fit_status();
  if (status == FitStatus::fitted || status == FitStatus::not_fittable) return;
  throw UsageError(name() + " has not learnt yet; call fit() or fit_transform() first");
}

Json Preprocessor::state() const {
  check_fitted();
  Json stats = Json::object();
  for (const auto& [what, value] : stats_) stats[what] = value_or_throw(option_of(compute::literal(value)));
  return {{"name", name()}, {"arguments", arguments()}, {"stats", std::move(stats)}};
}

void Preprocessor::load_state(const Json& state) {
  stats_ = stats_in(state);
  is_fitted_ = true;
}

void Preprocessor::check_state(const Json& state) const {
  stats_in(state);
}

AggregateResults Preprocessor::stats_in(const Json& state) const {
  try {
    if (state.at("name").get<std::string>() != name()) throw ConfigError(state["name"].get<std::string>());
    if (const Json& others = state.at("arguments"); others != arguments()) {
      throw ConfigError("it is of " + readable_json(others) + "; wanted: of " + readable_json(arguments()));
    }
    AggregateResults stats;
    for (const auto& [what, option] : state.at("stats").items()) {
      const compute::Expression value = value_or_throw(expression_of(option));
      if (value.literal() == nullptr || !value.literal()->is_scalar()) throw ConfigError(what);
      stats[what] = value.literal()->scalar();
    }
    return stats;
  } catch (const std::exception& error) {
    throw ConfigError("this is no state of a " + name() + ": " + error.what());
  }
}

OfColumns::OfColumns(const std::string& name, std::vector<std::string> columns, std::vector<std::string> output_columns)
    : columns_(std::move(columns)), output_columns_(output_columns.empty() ? columns_ : std::move(output_columns)) {
  if (columns_.size() != output_columns_.size()) {
    throw ConfigError(name + ": output_columns has " + std::to_string(output_columns_.size()) +
                      " names; wanted: one for each of " + std::to_string(columns_.size()) + " columns");
  }
  for (size_t i = 0; i < columns_.size(); ++i) {  // which would be made of what was made before
    if (std::find(columns_.begin() + static_cast<int64_t>(i) + 1, columns_.end(), output_columns_[i]) !=
        columns_.end()) {
      throw ConfigError(name + ": the output column '" + output_columns_[i] +
                        "' is a column that another one is made of");
    }
  }
}

Dataset OfColumns::made_of(const Dataset& dataset) const {
  Dataset made = dataset;
  for (size_t i = 0; i < columns_.size(); ++i) made = with_output(made, columns_[i], output_columns_[i]);
  return made;
}

void OfColumns::check_schema(const arrow::Schema& schema) const {
  for (const std::string& column : columns_) {
    const int place = schema.GetFieldIndex(column);
    if (place < 0) throw_if_error(missing_column(name(), column, schema));
    const arrow::DataType& type = *schema.field(place)->type();
    if (const std::string why = refusal(type); !why.empty()) {
      throw ConfigError(name() + ": the column '" + column + "' has " + type.ToString() + "; " + why);
    }
  }
}

const std::shared_ptr<arrow::Scalar>& OfColumns::stat(const std::string& kind, const std::string& column) const {
  const auto found = stats().find(kind + "(" + column + ")");
  if (found != stats().end()) return found->second;
  throw ConfigError("the state that " + name() + " was given has nothing of the column '" + column + "'");
}

std::string refuse_but_numbers(const arrow::DataType& type, const std::string& instead) {
  return holds_numbers(type) ? "" : "wanted: numbers; " + instead;
}

compute::Expression as_doubles(const std::string& column) {
  return compute::call("cast", {compute::field_ref(column)}, compute::CastOptions::Unsafe(arrow::float64()));
}

Dataset with_numbers(const Dataset& dataset, const std::string& column, const std::string& output,
                     const compute::Expression& value) {
  return dataset.step("with_column", {{"name", output},
                                      {"expression", value_or_throw(option_of(value))},
                                      {"numbers", std::vector<std::string>{column}}});
}

compute::Expression is_missing(const std::string& column) {
  return compute::call("is_null", {compute::field_ref(column)}, compute::NullOptions(/*nan_is_null=*/true));
}

Dataset without_nan(const Dataset& dataset, const std::vector<std::string>& columns) {
  Dataset made = dataset;
  const compute::Expression null = compute::literal(std::make_shared<arrow::NullScalar>());
  for (const std::string& column : columns) {
    made = made.with_column(column, compute::call("if_else", {is_missing(column), null, compute::field_ref(column)}));
  }
  return made;
}

}  // namespace paceline::data::preprocessors
