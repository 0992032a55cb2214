// A source whose tensors are nested lists of fixed size, the one form of tensors behind a reader: what gathers rows,
// what makes tensors of torch or arrays of numpy, and users' functions know no other.
#pragma once

#include <arrow/result.h>

#include <memory>

#include "paceline/data/source/source.h"

namespace paceline::data {

/// The same rows, with Arrow's extension type for tensors of fixed shape as nested lists; nothing is copied. `source`
/// itself where it has no such column. Invalid where the dimensions of one are permuted.
arrow::Result<std::shared_ptr<const Source>> with_plain_tensors(std::shared_ptr<const Source> source);

}  // namespace paceline::data
