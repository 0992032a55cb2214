// What a plan's step "read_csv" says of Arrow's CSV options: by the names that pyarrow.csv has for them.
#pragma once

#include <arrow/result.h>

#include "paceline/core/json.h"
#include "paceline/data/format/csv_source.h"

namespace paceline::data {

/// Those of pyarrow.csv's ReadOptions, ParseOptions and ConvertOptions that `options` has; others stay as they are by
/// default. Left to the caller: the columns and their types. `quote_char` and `escape_char` are false where there is
/// none; `timestamp_parsers` are formats of strptime(), or null for ISO 8601. Invalid for what should be one character
/// and is not.
arrow::Result<CsvOptions> csv_options_of(const Json& options);

}  // namespace paceline::data
