// What travels over one connection between machines, in either direction, frame by frame. No I/O.
//
// Layout, little endian: magic "PCW1" (4 bytes), kind (u8), three zero bytes, offset (u64), acknowledged (u64); then
// the bytes, whose number the connection knows. Every frame, whatever its kind, acknowledges.
#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace paceline::transport {

inline constexpr size_t kWireHeaderBytes = 24;

enum class FrameKind : uint8_t {
  data = 1,       // bytes of the sender's stream, at offset; at least one
  heartbeat = 2,  // the sender lives, and acknowledges
  close = 3       // the sender's stream ends at offset, and it reads no more
};

struct WireFrame {
  FrameKind kind = FrameKind::heartbeat;
  int64_t offset = 0;
  /// So many bytes of the receiver's own stream the sender has.
  int64_t acknowledged = 0;
  /// Of data; a view of what was decoded.
  std::string_view bytes;

  bool operator==(const WireFrame&) const = default;
};

/// Everything before the bytes.
std::string encode_header(FrameKind kind, int64_t offset, int64_t acknowledged);
/// Invalid: anything that encode_header() and at most kMaxPortionBytes do not give.
arrow::Result<WireFrame> decode_wire_frame(std::string_view frame);

}  // namespace paceline::transport
