// A block on its way to a function, and what the function made on its way back (function_messages.h), each in a region:
// copied once on the way there, and read where it lies on the way back.
#pragma once

#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <memory>
#include <string>

#include "paceline/data/function/function_messages.h"
#include "paceline/data/function/shared_regions.h"

namespace paceline::data {

/// Writes the block, which may be a slice of a larger one, from the region's beginning on. Returns how many bytes that
/// took; the region grows.
arrow::Result<int64_t> write_block(const arrow::RecordBatch& block, SharedRegion& region);

/// What the function made of `block`, whose columns and the region it holds. Invalid where the message fits neither.
arrow::Result<std::shared_ptr<arrow::RecordBatch>> read_made(const FunctionMade& made, const std::string& schema,
                                                             const arrow::RecordBatch& block,
                                                             const std::shared_ptr<SharedRegion>& region);

}  // namespace paceline::data
