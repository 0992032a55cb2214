#include "paceline/core/element_type.h"

namespace paceline {

std::string to_string(ElementType type) {
  switch (type) {
    case ElementType::none:
      return "";
    case ElementType::float32:
      return "float32";
    case ElementType::float64:
      return "float64";
    case ElementType::float16:
      return "float16";
    case ElementType::bfloat16:
      return "bfloat16";
    case ElementType::int8:
      return "int8";
    case ElementType::uint8:
      return "uint8";
    case ElementType::int16:
      return "int16";
    case ElementType::int32:
      return "int32";
    case ElementType::int64:
      return "int64";
    case ElementType::boolean:
      return "boolean";
    case ElementType::complex64:
      return "complex64";
    case ElementType::complex128:
      return "complex128";
  }
  return "type " + std::to_string(static_cast<int>(type));
}

size_t size_of(ElementType type) {
  switch (type) {
    case ElementType::complex128:
      return 16;
    case ElementType::float64:
    case ElementType::int64:
    case ElementType::complex64:
      return 8;
    case ElementType::float32:
    case ElementType::int32:
      return 4;
    case ElementType::float16:
    case ElementType::bfloat16:
    case ElementType::int16:
      return 2;
    default:
      return 1;
  }
}

}  // namespace paceline
