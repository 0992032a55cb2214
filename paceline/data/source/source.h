// Where rows come from: a list of chunks of one schema, each of which can be read alone.
//
// All that an order of rows needs is known before the first row is read (sizes). read() may be called from any thread,
// several times at once and for the same chunk again; it gives the same rows each time. What becomes unreadable, or has
// changed since the source was made, is an error that names the file. A source holds no rows itself.
#pragma once

#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "paceline/data/order/epoch_order.h"

namespace paceline::data {

/// A list of chunks of rows; see parquet_source.h for one of files.
class Source {
 public:
  virtual ~Source() = default;
  /// Of the batches that read() gives.
  virtual const std::shared_ptr<arrow::Schema>& schema() const = 0;
  /// Rows, and bytes once decoded, of each chunk.
  virtual const std::vector<ChunkSize>& chunks() const = 0;
  /// The rows of a chunk in their order, 0 ≤ chunk < chunks().size().
  virtual arrow::Result<std::shared_ptr<arrow::RecordBatch>> read(int64_t chunk) const = 0;
};

/// Rows that are in memory: each batch is a chunk. Invalid where the batches differ in their schema.
arrow::Result<std::unique_ptr<Source>> memory_source(std::shared_ptr<arrow::Schema> schema,
                                                     std::vector<std::shared_ptr<arrow::RecordBatch>> batches);

}  // namespace paceline::data
