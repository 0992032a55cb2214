// The types of the values that collectives work on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace paceline {

/// `none` where there are no values, as of a barrier, or where nobody has said what they are.
enum class ElementType : uint8_t {
  none = 0,
  float32,
  float64,
  float16,
  bfloat16,
  int8,
  uint8,
  int16,
  int32,
  int64,
  boolean,
  complex64,
  complex128
};

/// "float32", "boolean", …; "" for none.
std::string to_string(ElementType type);
/// Bytes of a value; 1 for none.
size_t size_of(ElementType type);

}  // namespace paceline
