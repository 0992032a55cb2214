// Encoders: categories as numbers.
//
// The values of a column, which must sort, are numbered in their order. Nulls and NaN are errors, of fit() and of
// transformed rows: fill them first, as with SimpleImputer. Numbers of another type than the learnt ones are found by
// what they are, 2.0 as 2; columns of another kind, as texts for numbers, are errors. Threading, ownership and errors
// are those of Preprocessor.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "paceline/data/operator/categories.h"
#include "paceline/data/preprocessor/preprocessor.h"

namespace paceline::data::preprocessors {

/// One that numbers the values of each column: the statistic "unique_values(column)" lists them in their order.
class OfCategories : public OfColumns {
 protected:
  /// `max_categories`: by column, only the most frequent ones are numbered.
  OfCategories(const std::string& name, std::vector<std::string> columns, std::vector<std::string> output_columns,
               Encoding encoding, std::map<std::string, int64_t> max_categories = {});
  Json arguments() const override;
  AggregateResults learn(const Dataset& dataset) override;
  Dataset with_output(const Dataset& dataset, const std::string& column, const std::string& output) const override;
  /// The dataset with `output` made of `column`, by the values of `of`.
  Dataset encoded(const Dataset& dataset, const std::string& column, const std::string& output, const std::string& of,
                  Encoding encoding) const;

 private:
  Encoding encoding_;
  std::map<std::string, int64_t> max_categories_;
};

/// Each value as its place among all values, as int64, from 0; one that was not there before as null.
///
///     const Dataset encoded = OrdinalEncoder({"country"}).fit_transform(ds);  // "de", "at", "de": 1, 0, 1
class OrdinalEncoder : public OfCategories {
 public:
  /// `output_columns`: empty for the same ones.
  explicit OrdinalEncoder(std::vector<std::string> columns, std::vector<std::string> output_columns = {});

 protected:
  std::string name() const override { return "OrdinalEncoder"; }
};

/// OrdinalEncoder of the column of labels, and back.
class LabelEncoder : public OrdinalEncoder {
 public:
  /// `output_column`: empty for the same one.
  explicit LabelEncoder(const std::string& label_column, const std::string& output_column = "");
  /// A dataset with the labels whose places are in the output column; null where there is no such place. A place with
  /// a fraction is an error.
  Dataset inverse_transform(const Dataset& dataset) const;

 private:
  std::string name() const override { return "LabelEncoder"; }
};

/// Each value as a fixed-size list of uint8 that has a 1 at its place; only zeros for one that was not there before.
/// transform() throws ConfigError for a column that had no values to learn from.
class OneHotEncoder : public OfCategories {
 public:
  /// `max_categories`: by column, only the most frequent ones have a place.
  explicit OneHotEncoder(std::vector<std::string> columns, std::map<std::string, int64_t> max_categories = {},
                         std::vector<std::string> output_columns = {});

 private:
  std::string name() const override { return "OneHotEncoder"; }
};

}  // namespace paceline::data::preprocessors
