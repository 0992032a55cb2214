// Frames: how an envelope becomes bytes of a stream, and back. No I/O.
//
// Layout, little endian: magic "PCL1" (4 bytes), head size (u32), bytes size (u64), number of descriptors (u8), three
// zero bytes; then the head (JSON text), then the bytes. Descriptors are attached to the frame's first byte.
// FrameReader is not thread-safe. Whatever the peer sends, memory use is bounded by kMaxHeadBytes + kMaxBytes, and by
// what has really arrived.
#pragma once

#include <arrow/result.h>

#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "paceline/core/posix/descriptor.h"
#include "paceline/rpc/envelope.h"

namespace paceline::rpc {

inline constexpr size_t kFrameHeaderBytes = 20;

/// Header and head of `envelope`'s frame; its bytes follow on the stream as they are. Invalid when a limit is exceeded.
arrow::Result<std::string> encode_frame_start(const Envelope& envelope);

/// Takes bytes as they arrive, in any portions, and gives envelopes.
class FrameReader {
 public:
  /// Adds what arrived. Invalid once the stream holds nonsense; nothing can be read after that.
  arrow::Status feed(std::span<const std::byte> bytes, std::vector<Descriptor> descriptors = {});
  /// The next whole envelope, nullopt when more bytes are needed.
  arrow::Result<std::optional<Envelope>> next();
  /// Whether the stream stands between two frames (a peer that closes elsewhere broke off).
  bool at_boundary() const { return buffer_.size() == consumed_; }

 private:
  std::string buffer_;
  size_t consumed_ = 0;
  std::deque<Descriptor> descriptors_;
};

}  // namespace paceline::rpc
