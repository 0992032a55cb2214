// DataConfig: which of a trainer's datasets are split among the workers, and how.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/config/field.h"
#include "paceline/train/data/execution_options.h"

namespace paceline {

/// Names of datasets.
using DatasetNames = std::vector<std::string>;
/// Words of DataConfig::equal by the names of datasets.
using EqualByName = std::map<std::string, std::string>;

#define PACELINE_DATA_CONFIG_FIELDS(FIELD)                                                                             \
  FIELD(std::optional<::paceline::DatasetNames>, datasets_to_split, std::nullopt, ::paceline::any_value(),             \
        "Names of the datasets that are split among the workers; each worker gets all rows of the others; not set: "   \
        "all are split")                                                                                               \
  FIELD(std::string, equal, "drop", ::paceline::one_of({"drop", "repeat", "pad", "uneven"}),                           \
        "What becomes of the rows at an epoch's end that the workers cannot share evenly. \"drop\": they get equally " \
        "many, and fewer rows than there are workers are left out. \"repeat\": equally many, the first rows once "     \
        "more. \"pad\": the same, and the column `is_padding` tells these rows. \"uneven\": each row exactly once; "   \
        "workers may differ by a row, and so by a step")                                                               \
  FIELD(::paceline::EqualByName, equal_by_name, ::paceline::EqualByName(), ::paceline::any_value(),                    \
        "The same for single datasets, by their names; `equal` is for the others")                                     \
  FIELD(bool, resume, true, ::paceline::any_value(),                                                                   \
        "After a restart datasets go on where the latest checkpoint was reported, in the middle of an epoch; "         \
        "otherwise at the first epoch's beginning")                                                                    \
  FIELD(::paceline::ExecutionOptions, execution_options, ::paceline::ExecutionOptions(), ::paceline::any_value(),      \
        "What reading may use on each machine, for all datasets together")
PACELINE_CONFIG(DataConfig, PACELINE_DATA_CONFIG_FIELDS);

}  // namespace paceline
