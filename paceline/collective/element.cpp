#include "paceline/collective/element.h"

namespace paceline::collective {

size_t size_of(Element element) {
  switch (element) {
    case Element::int8:
    case Element::uint8:
    case Element::boolean:
      return 1;
    case Element::float16:
    case Element::bfloat16:
    case Element::int16:
      return 2;
    case Element::float32:
    case Element::int32:
      return 4;
    case Element::complex128:
      return 16;
    default:
      return 8;
  }
}

const char* to_string(Element element) {
  switch (element) {
    case Element::float32:
      return "float32";
    case Element::float64:
      return "float64";
    case Element::float16:
      return "float16";
    case Element::bfloat16:
      return "bfloat16";
    case Element::int8:
      return "int8";
    case Element::uint8:
      return "uint8";
    case Element::int16:
      return "int16";
    case Element::int32:
      return "int32";
    case Element::int64:
      return "int64";
    case Element::boolean:
      return "bool";
    case Element::complex64:
      return "complex64";
    case Element::complex128:
      return "complex128";
  }
  return "unknown";
}

const char* to_string(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
      return "sum";
    case Reduction::mean:
      return "mean";
    case Reduction::product:
      return "product";
    case Reduction::min:
      return "min";
    case Reduction::max:
      return "max";
    case Reduction::bitwise_and:
      return "bitwise_and";
    case Reduction::bitwise_or:
      return "bitwise_or";
    case Reduction::bitwise_xor:
      return "bitwise_xor";
  }
  return "unknown";
}

bool has(Element element, Reduction reduction) {
  const bool is_complex = element == Element::complex64 || element == Element::complex128;
  const bool is_fraction = is_complex || element == Element::float16 || element == Element::bfloat16 ||
                           element == Element::float32 || element == Element::float64;
  switch (reduction) {
    case Reduction::mean:
      return element != Element::boolean;
    case Reduction::min:
    case Reduction::max:
      return !is_complex;
    case Reduction::bitwise_and:
    case Reduction::bitwise_or:
    case Reduction::bitwise_xor:
      return !is_fraction;
    default:
      return true;
  }
}

}  // namespace paceline::collective
