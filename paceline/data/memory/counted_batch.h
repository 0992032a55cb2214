// Batches that the ledger counts as long as anybody has a part of them.
//
// A consumer's batch may be a slice of a chunk, and then keeps the chunk's memory, also when the window is gone that
// the chunk was read for. So each buffer of a chunk holds the reservation that was made for it.
#pragma once

#include <arrow/type_fwd.h>

#include <memory>

#include "paceline/data/memory/ledger.h"

namespace paceline::data {

/// The same rows in the same memory. The reservation ends with the last buffer, or slice of one.
std::shared_ptr<arrow::RecordBatch> counted_batch(const arrow::RecordBatch& batch,
                                                  const std::shared_ptr<Ledger::Reservation>& reservation);

/// Whether a part of the batch is of one that counted_batch() gave.
bool has_counted_part(const arrow::RecordBatch& batch);

}  // namespace paceline::data
