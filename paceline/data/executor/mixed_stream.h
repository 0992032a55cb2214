// The rows of an epoch, mixed once more in buffers of some rows each: what Ray Data calls a local shuffle.
//
// Buffer b holds the next `buffer_rows` rows of the order, and gives them in an order by key and b. All buffers but the
// last are full, so no batch in mid-stream is short, and a state says exactly what has been given. Without buffers it
// is the RowStream itself. One thread calls the functions.
#pragma once

#include <arrow/result.h>

#include <memory>

#include "paceline/data/executor/row_stream.h"

namespace paceline::data {

/// Where an epoch goes on: a position of the order and, if rows are mixed in buffers, how many rows of the buffer that
/// begins there are done.
struct StreamState {
  Position position;
  int64_t buffer_rows = 0;  ///< 0: rows are not mixed in buffers
  int64_t buffer = 0;       ///< the number of the buffer
  int64_t done = 0;         ///< rows of it
  friend bool operator==(const StreamState&, const StreamState&) = default;
  /// Rows of the epoch that are done.
  int64_t rows() const { return position.rows + done; }
};

/// Rows of a source in an order, mixed in buffers.
class MixedStream {
 public:
  /// `key`: of seed and epoch. `from.buffer_rows` is how many rows are mixed.
  MixedStream(std::shared_ptr<Windows> windows, uint64_t key, const StreamState& from, Reading reading = Reading::ahead)
      : key_(key), rows_(std::move(windows), from.position, reading), state_(from) {}

  /// As of RowStream.
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> next(int64_t rows);
  arrow::Status skip(int64_t rows);
  arrow::Result<int64_t> ahead(int64_t rows);
  /// Rows of the window in which the next row is, from that on; 0 at the end. Only without buffers.
  arrow::Result<int64_t> left_of_window() { return rows_.left_of_window(); }
  void set_reading(Reading reading) { rows_.set_reading(reading); }
  bool is_near_end() { return rows_.is_near_end(); }
  const StreamState& state() const { return state_; }
  const std::shared_ptr<Windows>& windows() const { return rows_.windows(); }

 private:
  arrow::Status fill();
  int64_t left() const;

  const uint64_t key_;
  RowStream rows_;
  StreamState state_;
  std::shared_ptr<arrow::RecordBatch> buffer_;  // in the order in which its rows are given
  Ledger::Reservation room_;                    // for it
};

}  // namespace paceline::data
