// A connection to one data process: its socket and the memory where batches come.
//
// Thread-safe; one thread receives. Held by whoever has a batch in its memory.
#pragma once

#include <arrow/buffer.h>
#include <arrow/result.h>

#include <memory>

#include "paceline/core/posix/shared_memory.h"
#include "paceline/data/service/messages.h"
#include "paceline/rpc/blocking_socket.h"

namespace paceline::data {

class DataLink : public std::enable_shared_from_this<DataLink> {
 public:
  /// Waits for the data process's first message.
  static arrow::Result<std::shared_ptr<DataLink>> open(Descriptor socket);

  arrow::Status send(rpc::Envelope message) { return socket_.send(std::move(message)); }
  /// An error too when the process is gone.
  arrow::Result<rpc::Envelope> receive();
  void shut_down() { socket_.shut_down(); }
  /// The memory of a batch. The process may use it again once nobody has the buffer.
  arrow::Result<std::shared_ptr<arrow::Buffer>> slot(const BatchMade& batch);

 private:
  explicit DataLink(Descriptor socket) : socket_(std::move(socket)) {}

  rpc::BlockingSocket socket_;
  std::optional<SharedMemory> memory_;
};

}  // namespace paceline::data
