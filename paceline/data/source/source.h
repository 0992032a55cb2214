// Where rows come from: a list of chunks, each of which can be read alone.
//
// All that an order of rows needs is known before the first row is read (chunks()). read() may be called from any
// thread, several times at once and for the same chunk again; it gives the same rows each time. What becomes
// unreadable, or has changed since the source was made, is an error that names the file. A source holds no rows itself,
// except one whose rows are in memory anyway.
#pragma once

#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "paceline/data/order/epoch_order.h"

namespace paceline::data {

/// A list of chunks of rows; see parquet_source.h for one of files, operator/operator.h for one whose rows are made of
/// another's.
class Source {
 public:
  virtual ~Source() = default;
  /// Of the batches that read() gives. Where only the rows themselves can tell (a function of the user's has made
  /// them), the first of them are made.
  virtual arrow::Result<std::shared_ptr<arrow::Schema>> schema() const = 0;
  /// Rows, and bytes once decoded, of each chunk: known without reading it, unless counts_rows() is false.
  virtual const std::vector<ChunkSize>& chunks() const = 0;
  /// Whether read() gives as many rows as chunks() says. Otherwise (a filter) there may be more or fewer.
  virtual bool counts_rows() const = 0;
  /// Whether the rows are in memory, whoever reads them: a part of a chunk holds nothing that would go otherwise.
  virtual bool has_rows_in_memory() const { return false; }
  /// The rows of a chunk in their order, 0 ≤ chunk < chunks().size(). `key` is the epoch's: what is done to rows by
  /// chance is a function of key, chunk and row.
  virtual arrow::Result<std::shared_ptr<arrow::RecordBatch>> read(int64_t chunk, uint64_t key) const = 0;
  /// A number that is another where chunks or rows are others: of names, sizes and times of files, and of operators. A
  /// position in one source is refused by another.
  virtual uint64_t fingerprint() const = 0;
};

/// Rows that are in memory: each batch is a chunk. Invalid where the batches differ in their schema.
arrow::Result<std::unique_ptr<Source>> memory_source(std::shared_ptr<arrow::Schema> schema,
                                                     std::vector<std::shared_ptr<arrow::RecordBatch>> batches);

}  // namespace paceline::data
