// Frames: how an envelope becomes bytes of a stream, and back. No I/O.
//
// Layout, little endian: magic "PCL1" (4 bytes), head size (u32), bytes size (u64), number of descriptors (u8), three
// zero bytes; then the head (JSON text), then the bytes. Descriptors are attached to the frame's first byte.
// FrameReader is not thread-safe. Whatever the peer sends, memory use is bounded by kMaxHeadBytes + kMaxBytes, and by
// a small multiple of what has really arrived: a size that is only announced allocates nothing.
#pragma once

#include <arrow/result.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "paceline/core/posix/descriptor.h"
#include "paceline/rpc/envelope.h"

namespace paceline::rpc {

inline constexpr size_t kFrameHeaderBytes = 20;

/// How much is read from a socket at once.
inline constexpr size_t kPortionBytes = size_t{64} << 10;

/// Header and head of `envelope`'s frame; its bytes follow on the stream as they are. Invalid when a limit is exceeded.
arrow::Result<std::string> encode_frame_start(const Envelope& envelope);

/// What a frame's header announces.
struct FrameSizes {
  size_t head = 0;
  size_t bytes = 0;
  size_t descriptors = 0;
};

/// Takes bytes as they arrive, in any portions, and gives envelopes.
///
/// How descriptors find their frame: the kernel hands them over with the byte that they were sent with, and never two
/// sendings' descriptors in one call. So those that came are in the order of the frames, and those of a frame are here
/// when its header is: the header says how many to take. Descriptors that no frame claims are nonsense.
class FrameReader {
 public:
  /// Adds what arrived. Invalid once the stream holds nonsense; next() still gives the envelopes before that.
  arrow::Status feed(std::span<const std::byte> bytes, std::vector<Descriptor> descriptors = {});
  /// The next whole envelope, nullopt when more bytes are needed; the error of feed() after the last.
  arrow::Result<std::optional<Envelope>> next();
  /// Whether the stream stands between two frames (a peer that closes elsewhere broke off).
  bool at_boundary() const { return status_.ok() && start_.empty(); }
  /// Whether, beyond that, next() has given all that came.
  bool is_drained() const { return at_boundary() && ready_.empty(); }

 private:
  arrow::Status take(std::span<const std::byte>& bytes);
  arrow::Status begin_frame();
  arrow::Status end_frame();
  arrow::Status check_descriptors() const;

  std::string start_;                // header and head of the frame that is arriving
  std::optional<FrameSizes> sizes_;  // known once its header is whole
  std::string bytes_;
  std::vector<Descriptor> frame_descriptors_;
  std::deque<Descriptor> descriptors_;  // arrived, not claimed yet
  std::deque<Envelope> ready_;
  arrow::Status status_;
};

}  // namespace paceline::rpc
