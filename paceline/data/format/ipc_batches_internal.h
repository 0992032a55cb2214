// Files and streams of Arrow's IPC format: what batches they have, and any of these alone.
//
// A file ends with a footer that says where its batches are. In a stream each message says only how long it is itself,
// so all of them are looked for once; their bodies are not read for that.
#pragma once

#include <arrow/io/type_fwd.h>
#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace paceline::data {

/// What is known of a file without its rows.
struct IpcBatches {
  /// Bytes of it.
  struct Piece {
    int64_t first = 0;
    int64_t size = 0;
  };
  /// A batch of a stream.
  struct Place {
    Piece message;
    size_t dictionaries = 0;  ///< messages with dictionaries before it
  };
  std::shared_ptr<arrow::Schema> schema;
  std::vector<int64_t> rows;  ///< of each batch
  // Of a stream only:
  Piece schema_message;
  std::vector<Piece> dictionaries;
  std::vector<Place> places;  ///< of each batch

  bool is_stream() const { return schema_message.size > 0; }
};

/// Finds the batches. Invalid or IOError where the file is none of Arrow's, or cut off.
arrow::Result<IpcBatches> find_ipc_batches(const std::shared_ptr<arrow::io::RandomAccessFile>& file);

/// Reads a batch; of `columns`, numbers in the schema, at least one.
arrow::Result<std::shared_ptr<arrow::RecordBatch>> read_ipc_batch(
    const std::shared_ptr<arrow::io::RandomAccessFile>& file, const IpcBatches& batches, int64_t number,
    const std::vector<int>& columns);

}  // namespace paceline::data
