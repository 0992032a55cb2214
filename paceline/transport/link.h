// Link: one connection that carries frames in order, and may break at any moment.
//
// Implementations: in memory with faults on demand (testing/faulty_link.h), Arrow Flight (flight_link.h).
// Threading: one thread reads, another may write, any may close. Whoever holds it owns it.
#pragma once

#include <arrow/buffer.h>
#include <arrow/result.h>

#include <memory>
#include <string>

namespace paceline::transport {

class Link {
 public:
  virtual ~Link() = default;

  /// Waits for the next frame; null when the peer has finished writing. IOError when the connection broke.
  virtual arrow::Result<std::shared_ptr<arrow::Buffer>> read() = 0;
  /// Writes a frame; may wait for a peer that does not read. IOError when the connection is broken: the frame, and
  /// others before it, may not have arrived.
  virtual arrow::Status write(std::string frame) = 0;
  /// Nothing more will be written: the peer's read() gives null once it has read everything. Called by the thread that
  /// writes, or while none does.
  virtual void finish_writing() = 0;
  /// Breaks the connection off. read() and write() end soon, also those that wait, as far as the implementation can;
  /// what it cannot end it says.
  virtual void close() = 0;
};

}  // namespace paceline::transport
