#include "paceline/transport/wire_frame.h"

#include <limits>

#include "paceline/transport/resumable_stream.h"

namespace paceline::transport {
namespace {

constexpr std::string_view kMagic = "PCW1";

void append_number(std::string& out, int64_t number) {
  const auto value = static_cast<uint64_t>(number);
  for (int i = 0; i < 8; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

arrow::Result<int64_t> read_number(std::string_view text) {
  uint64_t value = 0;
  for (size_t i = 0; i < 8; ++i) value |= static_cast<uint64_t>(static_cast<unsigned char>(text[i])) << (8 * i);
  if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return arrow::Status::Invalid("a number in a connection's frame is too large: ", value);
  }
  return static_cast<int64_t>(value);
}

}  // namespace

std::string encode_header(FrameKind kind, int64_t offset, int64_t acknowledged) {
  std::string header(kMagic);
  header.push_back(static_cast<char>(kind));
  header.append(3, '\0');
  append_number(header, offset);
  append_number(header, acknowledged);
  return header;
}

arrow::Result<WireFrame> decode_wire_frame(std::string_view text) {
  if (text.size() < kWireHeaderBytes || !text.starts_with(kMagic)) {
    return arrow::Status::Invalid("not a frame of a Paceline connection");
  }
  if (text.substr(5, 3) != std::string_view("\0\0\0", 3)) {
    return arrow::Status::Invalid("the reserved bytes of a connection's frame are not zero");
  }
  WireFrame frame;
  const auto kind = static_cast<uint8_t>(text[4]);
  if (kind < static_cast<uint8_t>(FrameKind::data) || kind > static_cast<uint8_t>(FrameKind::close)) {
    return arrow::Status::Invalid("a connection's frame is of an unknown kind: ", static_cast<int>(kind));
  }
  frame.kind = static_cast<FrameKind>(kind);
  ARROW_ASSIGN_OR_RAISE(frame.offset, read_number(text.substr(8)));
  ARROW_ASSIGN_OR_RAISE(frame.acknowledged, read_number(text.substr(16)));
  frame.bytes = text.substr(kWireHeaderBytes);
  if (frame.bytes.size() > kMaxPortionBytes) {
    return arrow::Status::Invalid("a connection's frame is too large: wanted at most ", kMaxPortionBytes,
                                  " bytes, got ", frame.bytes.size());
  }
  if ((frame.kind == FrameKind::data) == frame.bytes.empty()) {
    return arrow::Status::Invalid("data without bytes, or bytes that are not data, in a connection's frame");
  }
  return frame;
}

}  // namespace paceline::transport
