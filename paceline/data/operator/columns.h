// Operators that choose columns and rename them: nothing is copied.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "paceline/data/operator/operator.h"

namespace paceline::data {

/// Keeps these columns, in this order. A name that is missing is an error.
std::shared_ptr<const Operator> select_columns(std::vector<std::string> names);
/// Leaves these columns out. A name that is missing is an error.
std::shared_ptr<const Operator> drop_columns(std::vector<std::string> names);
/// Gives the columns that are keys of `names` the names that are its values. A name that is missing, and two columns of
/// one name, are errors.
std::shared_ptr<const Operator> rename_columns(std::map<std::string, std::string> names);

}  // namespace paceline::data
