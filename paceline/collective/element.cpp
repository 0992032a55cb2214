#include "paceline/collective/element.h"

namespace paceline::collective {

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
