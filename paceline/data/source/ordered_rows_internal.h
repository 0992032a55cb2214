// Any rows of a source in the order of an epoch.
#pragma once

#include <arrow/result.h>

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "paceline/core/posix/forks.h"
#include "paceline/data/source/views.h"

namespace paceline::data {

/// The rows of an OrderedSource by their position. Any thread may call read(). Parts that are read one after the other
/// do not read chunks twice, as far as shared_reads.h says.
class OrderedRows {
 public:
  explicit OrderedRows(OrderedSource of);

  int64_t rows() const { return rows_; }
  int64_t bytes() const { return bytes_; }
  const Source& source() const { return *of_.source; }
  /// Of source and order.
  uint64_t fingerprint() const;
  /// The rows at positions first … first + rows - 1, 0 ≤ first ≤ first + rows ≤ this->rows(), as batches that are
  /// slices of what the source gives. `key` is the epoch's; `pass` tells several orders of an epoch apart. Where the
  /// order stays, only what is done to rows by chance depends on `key`.
  arrow::Result<std::vector<std::shared_ptr<arrow::RecordBatch>>> read(int64_t first, int64_t rows, uint64_t key,
                                                                       uint64_t pass) const;

 private:
  // An order, and the row with which each of its chunks begins.
  struct Pass {
    std::shared_ptr<const Source> source;
    std::vector<int64_t> begins;
  };

  std::shared_ptr<const Pass> pass_of(uint64_t key) const;

  const OrderedSource of_;
  int64_t rows_ = 0;
  int64_t bytes_ = 0;
  struct Passes {
    std::mutex mutex;
    std::map<uint64_t, std::shared_ptr<const Pass>> known;  // those that were used last
  };
  const PerProcess<Passes> passes_;
};

}  // namespace paceline::data
