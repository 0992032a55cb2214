// A batch as the bytes of an Arrow IPC stream: written into a slot by one process, seen by another without a copy.
#pragma once

#include <arrow/buffer.h>
#include <arrow/record_batch.h>
#include <arrow/result.h>

#include <memory>

#include "paceline/data/service/arena.h"

namespace paceline::data {

/// Copies the batch into a slot of its own.
arrow::Result<Slot> write_batch(const arrow::RecordBatch& batch, Arena& arena);
/// The batch in `bytes`, which it keeps.
arrow::Result<std::shared_ptr<arrow::RecordBatch>> batch_in(std::shared_ptr<arrow::Buffer> bytes);

}  // namespace paceline::data
