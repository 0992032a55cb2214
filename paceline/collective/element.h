// What a collective's values are, and how the ranks' values become one. Pure data.
#pragma once

#include <bit>
#include <cstdint>

#include "paceline/core/element_type.h"

namespace paceline::collective {

/// float16 and bfloat16 are summed as float32; of a boolean the sum is "any", the product "all". Never none.
using Element = ElementType;

/// As c10d::ReduceOp has them, but that a sum with a factor is a sum here.
enum class Reduction : uint8_t { sum, mean, product, min, max, bitwise_and, bitwise_or, bitwise_xor };

/// "sum", "bitwise_and", …
const char* to_string(Reduction reduction);

/// Whether values of that type have that reduction: booleans have no mean (that of integers has no fraction, as
/// NCCL's), complex numbers no order, and only integers and booleans have bits.
bool has(Element element, Reduction reduction);

/// How values become one.
struct Reduce {
  Element element = Element::float32;
  Reduction reduction = Reduction::sum;
  double factor = 1;  ///< of a sum: each rank's values are multiplied by it first; floating-point numbers only

  /// Of the same bits, so that a factor that is no number equals itself.
  bool operator==(const Reduce& other) const {
    return element == other.element && reduction == other.reduction &&
           std::bit_cast<uint64_t>(factor) == std::bit_cast<uint64_t>(other.factor);
  }
};

}  // namespace paceline::collective
