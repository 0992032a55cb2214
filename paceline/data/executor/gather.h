// Rows of several chunks as one batch.
//
// Pure. Neighbouring rows of one chunk are copied together, so that an order that mixes little costs little. Rows that
// are all of one chunk and in sequence are not copied: the batch is a slice of it, and keeps the chunk alive.
#pragma once

#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "paceline/data/order/epoch_order.h"

namespace paceline::data {

/// The rows `rows` of `batches`, which have the same schema and are at least one; `chunk` says which batch. Fails where
/// memory is short, or where a column of texts would exceed 2 GiB.
arrow::Result<std::shared_ptr<arrow::RecordBatch>> gather(
    const std::vector<std::shared_ptr<arrow::RecordBatch>>& batches, std::span<const RowPlace> rows,
    arrow::MemoryPool* pool);

}  // namespace paceline::data
