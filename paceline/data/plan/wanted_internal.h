// What steps want of the rows before them.
#pragma once

#include <arrow/compute/expression.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace paceline::data {

struct Wanted {
  /// The columns that matter, each once; nullopt for all.
  std::optional<std::vector<std::string>> columns;
  /// Rows for which one of these is not true do not matter.
  std::vector<arrow::compute::Expression> conditions;
  /// Whether blocks are for a function, which has each of them in memory several times.
  bool small_blocks = false;
};

/// The columns that an expression reads; nullopt where it names one by its place.
std::optional<std::vector<std::string>> columns_of(const arrow::compute::Expression& expression);
/// The expression with other names for its columns.
arrow::compute::Expression with_names(const arrow::compute::Expression& expression,
                                      const std::map<std::string, std::string>& names);
/// What has to be true for the expression to be: the parts that "and" joins.
std::vector<arrow::compute::Expression> conjuncts(const arrow::compute::Expression& expression);

/// Adds names that are not there yet.
void add_names(std::vector<std::string>& names, const std::vector<std::string>& more);

}  // namespace paceline::data
