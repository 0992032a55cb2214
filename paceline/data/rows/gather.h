// Rows of several chunks as one batch.
//
// Pure. Neighbouring rows of one chunk are copied together, so that an order that mixes little costs little. Rows that
// are all of one chunk and in sequence are not copied unless that is asked for: the batch is a slice of it, and keeps
// the chunk alive.
#pragma once

#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "paceline/data/order/epoch_order.h"

namespace paceline::data {

/// The rows of `runs`, one run after the other, from `batches`, which are at least one; `chunk` says which batch. Where
/// their schemas differ, as those of a user's function may, columns get a type that holds both (int64 and double:
/// double), and what a batch lacks is null; Invalid where there is none. The index of a
/// dictionary becomes wider where the batches have more words together than it can count. Fails where
/// memory is short, or where a column of texts would exceed 2 GiB.
arrow::Result<std::shared_ptr<arrow::RecordBatch>> gather(
    const std::vector<std::shared_ptr<arrow::RecordBatch>>& batches, std::span<const RowRun> runs,
    arrow::MemoryPool* pool, bool copies = false);

/// Rows of `batches`, which are at least one, in the order `rows`: numbers counted through the batches.
arrow::Result<std::shared_ptr<arrow::RecordBatch>> take_all(
    const std::vector<std::shared_ptr<arrow::RecordBatch>>& batches, std::vector<uint32_t> rows,
    arrow::MemoryPool* pool);

}  // namespace paceline::data
