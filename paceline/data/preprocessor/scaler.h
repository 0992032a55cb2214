// Scalers: numbers in other units, as double.
//
// What is learnt passes over nulls and NaN, which stay. A column of which nothing else is known becomes NaN. fit()
// throws ConfigError for a column of anything but numbers. Threading, ownership and errors are those of Preprocessor.
#pragma once

#include <string>
#include <vector>

#include "paceline/data/preprocessor/preprocessor.h"

namespace paceline::data::preprocessors {

/// Less their mean, in standard deviations (of all rows: ddof is 0). A constant column becomes 0.
///
///     const Dataset scaled = StandardScaler({"height", "weight"}).fit_transform(ds);
class StandardScaler : public OfColumns {
 public:
  /// `output_columns`: empty for the same ones.
  explicit StandardScaler(std::vector<std::string> columns, std::vector<std::string> output_columns = {});

 private:
  std::string name() const override { return "StandardScaler"; }
  std::string refusal(const arrow::DataType& type) const override;
  AggregateResults learn(const Dataset& dataset) override;
  Dataset with_output(const Dataset& dataset, const std::string& column, const std::string& output) const override;
};

/// From 0 for the smallest to 1 for the largest. A constant column becomes 0.
class MinMaxScaler : public OfColumns {
 public:
  /// Of these columns, whose values go to `output_columns`, one for each, or where there are none take their place.
  explicit MinMaxScaler(std::vector<std::string> columns, std::vector<std::string> output_columns = {});

 private:
  std::string name() const override { return "MinMaxScaler"; }
  std::string refusal(const arrow::DataType& type) const override;
  AggregateResults learn(const Dataset& dataset) override;
  Dataset with_output(const Dataset& dataset, const std::string& column, const std::string& output) const override;
};

/// As parts of the largest absolute value. A column of 0 stays one.
class MaxAbsScaler : public OfColumns {
 public:
  /// Of these columns, whose values go to `output_columns`, one for each, or where there are none take their place.
  explicit MaxAbsScaler(std::vector<std::string> columns, std::vector<std::string> output_columns = {});

 private:
  std::string name() const override { return "MaxAbsScaler"; }
  std::string refusal(const arrow::DataType& type) const override;
  AggregateResults learn(const Dataset& dataset) override;
  Dataset with_output(const Dataset& dataset, const std::string& column, const std::string& output) const override;
};

}  // namespace paceline::data::preprocessors
