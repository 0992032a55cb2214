// ProtobufWriter: the bytes of a protocol-buffers message, field by field. The formats that trackers write need a dozen
// messages; that does not take a compiler and a library. Encoding: https://protobuf.dev/programming-guides/encoding
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace paceline::track {

class ProtobufWriter {
 public:
  ProtobufWriter& integer(int field, int64_t value) {
    tag(field, 0);
    varint(static_cast<uint64_t>(value));
    return *this;
  }
  ProtobufWriter& number(int field, double value) {
    tag(field, 1);
    fixed(std::bit_cast<uint64_t>(value));
    return *this;
  }
  ProtobufWriter& single(int field, float value) {
    tag(field, 5);
    fixed(std::bit_cast<uint32_t>(value));
    return *this;
  }
  ProtobufWriter& text(int field, std::string_view value) {
    tag(field, 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  ProtobufWriter& message(int field, const ProtobufWriter& value) { return text(field, value.bytes_); }

  const std::string& bytes() const { return bytes_; }

 private:
  void tag(int field, int wire_type) { varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(wire_type)); }
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  template <class Integer>
  void fixed(Integer value) {  // little endian
    for (size_t i = 0; i < sizeof value; ++i) bytes_ += static_cast<char>(value >> (8 * i));
  }

  std::string bytes_;
};

}  // namespace paceline::track
