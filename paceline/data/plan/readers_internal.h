// How rows come into a plan: the first steps there are, a row each.
#pragma once

#include <arrow/result.h>

#include <memory>
#include <span>
#include <string_view>

#include "paceline/data/plan/plan.h"

namespace paceline::data {

struct Reader {
  std::string_view kind;  ///< Plan::kind
  std::string_view name;  ///< as statistics and plans show it
  /// Invalid or IOError where the rows cannot be had. May throw Json::exception for options of another type.
  arrow::Result<std::shared_ptr<const Source>> (*open)(const Plan& plan);
  bool takes_columns = false;      ///< the option `columns`: their names, in this order
  bool takes_filter = false;       ///< the option `filter`: rows that do not pass it may be left out (expression_of())
  bool takes_block_bytes = false;  ///< the option `block_bytes`: blocks of more are read in parts
};

std::span<const Reader> readers();

}  // namespace paceline::data
