// What is said where a step names a column that is not there.
#pragma once

#include <arrow/compute/expression.h>
#include <arrow/status.h>
#include <arrow/type.h>

#include <string>

namespace paceline::data {

/// `whose`: the step as the user knows it, "SelectColumns(z)". Where no columns are left, what there are is not known:
/// a step only gets those that are wanted of it.
inline arrow::Status missing_column(const std::string& whose, const std::string& column, const arrow::Schema& schema) {
  std::string there;
  for (const std::string& name : schema.field_names()) there += (there.empty() ? "" : ", ") + name;
  return arrow::Status::Invalid(whose, ": there is no column '", column, "'", there.empty() ? "" : "; there are ",
                                there);
}

/// Whether all columns are there that the expression names.
inline arrow::Status check_columns(const std::string& whose, const arrow::compute::Expression& expression,
                                   const arrow::Schema& schema) {
  for (const arrow::FieldRef& column : arrow::compute::FieldsInExpression(expression)) {
    if (!column.FindAll(schema).empty()) continue;
    const std::string* const name = column.name();
    return missing_column(whose, name != nullptr ? *name : column.ToDotPath(), schema);
  }
  return arrow::Status::OK();
}

}  // namespace paceline::data
