// The loops of reduce() and copy_past_caches(), compiled once for each set of instructions.
//
// The including file defines PACELINE_INSTRUCTIONS, a namespace of its own. Nothing of the standard library is called
// here: the linker would keep one copy of such a function for the whole program, perhaps one with instructions that the
// machine lacks. No loop fuses a multiplication with an addition (-ffp-contract=off), which would change the bits.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "paceline/collective/element.h"

namespace paceline::collective::PACELINE_INSTRUCTIONS {
namespace {

constexpr size_t kLine = 64;

// Values that are in the first-level cache while the ranks' values are added to them.
constexpr size_t kBlock = 1024;

struct Float16 {
  _Float16 value;
};
struct BFloat16 {
  uint16_t bits;
};
struct Boolean {
  uint8_t value;
};
template <class Real>
struct Complex {
  Real real, imaginary;
};

// How a type is kept while it is added up, and the way there and back.
template <class T>
struct Kept {
  using Type = T;
  static T load(T value) { return value; }
  static T store(T value) { return value; }
};
template <>
struct Kept<Float16> {
  using Type = float;
  static float load(Float16 value) { return static_cast<float>(value.value); }
  static Float16 store(float value) { return {static_cast<_Float16>(value)}; }
};
template <>
struct Kept<BFloat16> {
  using Type = float;
  static float load(BFloat16 value) {
    const uint32_t bits = static_cast<uint32_t>(value.bits) << 16;
    float result;
    __builtin_memcpy(&result, &bits, sizeof result);
    return result;
  }
  // To the nearest, ties to even; what is no number stays none.
  static BFloat16 store(float value) {
    uint32_t bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    const uint32_t rounded = bits + 0x7fffU + ((bits >> 16) & 1U);
    const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
    return {static_cast<uint16_t>(is_nan ? (bits >> 16) | 0x40U : rounded >> 16)};
  }
};
template <>
struct Kept<Boolean> {
  using Type = uint8_t;
  static uint8_t load(Boolean value) { return value.value != 0 ? 1 : 0; }
  static Boolean store(uint8_t value) { return {value}; }
};

// Integers wrap, as in LibTorch: they are added without a sign.
template <class T>
struct Wrapping {
  using Type = T;
};
template <>
struct Wrapping<int8_t> {
  using Type = uint8_t;
};
template <>
struct Wrapping<int16_t> {
  using Type = uint16_t;
};
template <>
struct Wrapping<int32_t> {
  using Type = uint32_t;
};
template <>
struct Wrapping<int64_t> {
  using Type = uint64_t;
};

struct Sum {
  template <class T>
  static T of(T a, T b) {
    using Number = typename Wrapping<T>::Type;
    return static_cast<T>(static_cast<Number>(a) + static_cast<Number>(b));
  }
  template <class Real>
  static Complex<Real> of(Complex<Real> a, Complex<Real> b) {
    return {a.real + b.real, a.imaginary + b.imaginary};
  }
};
struct Product {
  template <class T>
  static T of(T a, T b) {
    using Number = typename Wrapping<T>::Type;
    // Of two bytes each the product is an int, which would not be without a sign.
    if constexpr (sizeof(Number) < sizeof(int)) {
      return static_cast<T>(static_cast<uint32_t>(static_cast<Number>(a)) *
                            static_cast<uint32_t>(static_cast<Number>(b)));
    } else {
      return static_cast<T>(static_cast<Number>(a) * static_cast<Number>(b));
    }
  }
  template <class Real>
  static Complex<Real> of(Complex<Real> a, Complex<Real> b) {
    return {a.real * b.real - a.imaginary * b.imaginary, a.real * b.imaginary + a.imaginary * b.real};
  }
};
template <class T>
bool is_nan(T) {
  return false;
}
inline bool is_nan(float value) {
  return __builtin_isnan(value);
}
inline bool is_nan(double value) {
  return __builtin_isnan(value);
}

// What is no number wins, as in torch.minimum().
struct Min {
  template <class T>
  static T of(T a, T b) {
    return (b < a || is_nan(b)) && !is_nan(a) ? b : a;
  }
};
struct Max {
  template <class T>
  static T of(T a, T b) {
    return (a < b || is_nan(b)) && !is_nan(a) ? b : a;
  }
};
struct And {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

struct Values {
  const void* const* sources;
  size_t source_count;
  void* const* destinations;
  size_t destination_count;
  size_t count;
};

template <class Real>
Real times(Real value, Real factor) {
  return value * factor;
}
template <class Real>
Complex<Real> times(Complex<Real> value, Real factor) {
  return {value.real * factor, value.imaginary * factor};
}
template <class Real>
Real divided(Real value, Real divisor) {
  return value / divisor;
}
template <class Real>
Complex<Real> divided(Complex<Real> value, Real divisor) {
  return {value.real / divisor, value.imaginary / divisor};
}

// Two ranks that write both: most of what a node of two workers does, and bound by memory.
template <class T, class Operation>
void reduce_pair(const Values& values) {
  const T* const first = static_cast<const T*>(values.sources[0]);
  const T* const second = static_cast<const T*>(values.sources[1]);
  T* const one = static_cast<T*>(values.destinations[0]);
  T* const other = static_cast<T*>(values.destinations[values.destination_count - 1]);
  using As = Kept<T>;
#pragma GCC ivdep
  for (size_t i = 0; i < values.count; ++i) {
    const T result = As::store(Operation::of(As::load(first[i]), As::load(second[i])));
    one[i] = result;
    other[i] = result;
  }
}

// One block of one rank's values.
template <class T, class Operation, class Number>
void add_block(const T* from, size_t size, bool is_first, Number* block) {
  using As = Kept<T>;
  if (is_first) {
    for (size_t i = 0; i < size; ++i) block[i] = As::load(from[i]);
  } else {
    for (size_t i = 0; i < size; ++i) block[i] = Operation::of(block[i], As::load(from[i]));
  }
}

template <class T, class Number>
void store_block(const Values& values, size_t begin, size_t size, const Number* block) {
  for (size_t destination = 0; destination < values.destination_count; ++destination) {
    T* const to = static_cast<T*>(values.destinations[destination]) + begin;
    for (size_t i = 0; i < size; ++i) to[i] = Kept<T>::store(block[i]);
  }
}

size_t block_size(const Values& values, size_t begin) {
  return values.count - begin < kBlock ? values.count - begin : kBlock;
}

template <class T, class Operation>
void reduce_as(const Values& values) {
  if (values.source_count == 2 && values.destination_count <= 2) return reduce_pair<T, Operation>(values);
  typename Kept<T>::Type block[kBlock];
  for (size_t begin = 0; begin < values.count; begin += kBlock) {
    const size_t size = block_size(values, begin);
    for (size_t source = 0; source < values.source_count; ++source) {
      add_block<T, Operation>(static_cast<const T*>(values.sources[source]) + begin, size, source == 0, block);
    }
    store_block<T>(values, begin, size, block);
  }
}

// Each rank's values are multiplied, and the sum is divided.
template <class T, class Real>
void sum_scaled(const Values& values, Real factor, Real divisor) {
  using As = Kept<T>;
  typename As::Type block[kBlock];
  for (size_t begin = 0; begin < values.count; begin += kBlock) {
    const size_t size = block_size(values, begin);
    for (size_t source = 0; source < values.source_count; ++source) {
      const T* const from = static_cast<const T*>(values.sources[source]) + begin;
      if (factor == 1) {
        add_block<T, Sum>(from, size, source == 0, block);
      } else if (source == 0) {
        for (size_t i = 0; i < size; ++i) block[i] = times(As::load(from[i]), factor);
      } else {
        for (size_t i = 0; i < size; ++i) block[i] = Sum::of(block[i], times(As::load(from[i]), factor));
      }
    }
    if (divisor != 1) {
      for (size_t i = 0; i < size; ++i) block[i] = divided(block[i], divisor);
    }
    store_block<T>(values, begin, size, block);
  }
}

template <class T, class Real>
void reduce_fractions(const Reduce& what, const Values& values) {
  switch (what.reduction) {
    case Reduction::mean:
      return sum_scaled<T, Real>(values, 1, static_cast<Real>(values.source_count));
    case Reduction::product:
      return reduce_as<T, Product>(values);
    case Reduction::min:
      if constexpr (requires(typename Kept<T>::Type value) { value < value; }) return reduce_as<T, Min>(values);
      return;
    case Reduction::max:
      if constexpr (requires(typename Kept<T>::Type value) { value < value; }) return reduce_as<T, Max>(values);
      return;
    default:
      if (what.factor != 1) return sum_scaled<T, Real>(values, static_cast<Real>(what.factor), 1);
      return reduce_as<T, Sum>(values);
  }
}

// The part before the point. The sum may leave the type's range, but not that of 64 bits.
template <class T>
void mean_of_integers(const Values& values) {
  const auto divisor = static_cast<int64_t>(values.source_count);
  uint64_t sums[kBlock];  // which wrap
  T block[kBlock];
  for (size_t begin = 0; begin < values.count; begin += kBlock) {
    const size_t size = block_size(values, begin);
    for (size_t source = 0; source < values.source_count; ++source) {
      const T* const from = static_cast<const T*>(values.sources[source]) + begin;
      for (size_t i = 0; i < size; ++i) sums[i] = (source == 0 ? 0 : sums[i]) + static_cast<uint64_t>(from[i]);
    }
    for (size_t i = 0; i < size; ++i) block[i] = static_cast<T>(static_cast<int64_t>(sums[i]) / divisor);
    store_block<T>(values, begin, size, block);
  }
}

template <class T>
void reduce_integers(const Reduce& what, const Values& values) {
  switch (what.reduction) {
    case Reduction::mean:
      return mean_of_integers<T>(values);
    case Reduction::product:
      return reduce_as<T, Product>(values);
    case Reduction::min:
      return reduce_as<T, Min>(values);
    case Reduction::max:
      return reduce_as<T, Max>(values);
    case Reduction::bitwise_and:
      return reduce_as<T, And>(values);
    case Reduction::bitwise_or:
      return reduce_as<T, Or>(values);
    case Reduction::bitwise_xor:
      return reduce_as<T, Xor>(values);
    default:
      return reduce_as<T, Sum>(values);
  }
}

void reduce_booleans(const Reduce& what, const Values& values) {
  switch (what.reduction) {
    case Reduction::product:
    case Reduction::min:
    case Reduction::bitwise_and:
      return reduce_as<Boolean, And>(values);
    case Reduction::bitwise_xor:
      return reduce_as<Boolean, Xor>(values);
    default:
      return reduce_as<Boolean, Or>(values);
  }
}

void reduce_values(const Reduce& what, const Values& values) {
  switch (what.element) {
    case Element::float32:
      return reduce_fractions<float, float>(what, values);
    case Element::float64:
      return reduce_fractions<double, double>(what, values);
    case Element::float16:
      return reduce_fractions<Float16, float>(what, values);
    case Element::bfloat16:
      return reduce_fractions<BFloat16, float>(what, values);
    case Element::complex64:
      return reduce_fractions<Complex<float>, float>(what, values);
    case Element::complex128:
      return reduce_fractions<Complex<double>, double>(what, values);
    case Element::int8:
      return reduce_integers<int8_t>(what, values);
    case Element::uint8:
      return reduce_integers<uint8_t>(what, values);
    case Element::int16:
      return reduce_integers<int16_t>(what, values);
    case Element::int32:
      return reduce_integers<int32_t>(what, values);
    case Element::int64:
      return reduce_integers<int64_t>(what, values);
    case Element::boolean:
      return reduce_booleans(what, values);
    case Element::none:
      return;
  }
}

// `to` is aligned.
inline void store_line(std::byte* to, const std::byte* from) {
#if defined(__AVX512F__)
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_loadu_si512(from));
#elif defined(__AVX2__)
  for (size_t i = 0; i < kLine; i += 32) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i),
                        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i)));
  }
#elif defined(__x86_64__)
  for (size_t i = 0; i < kLine; i += 16) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)));
  }
#else
  __builtin_memcpy(to, from, kLine);
#endif
}

}  // namespace

void copy_past_caches(std::byte* to, const std::byte* from, size_t bytes) {
  const size_t to_line = (kLine - reinterpret_cast<uintptr_t>(to) % kLine) % kLine;
  size_t done = to_line < bytes ? to_line : bytes;
  __builtin_memcpy(to, from, done);
  for (; done + kLine <= bytes; done += kLine) store_line(to + done, from + done);
  __builtin_memcpy(to + done, from + done, bytes - done);
#if defined(__x86_64__)
  _mm_sfence();  // before others are told that it is there
#endif
}

void reduce(const Reduce& what, const void* const* sources, size_t source_count, void* const* destinations,
            size_t destination_count, size_t count) {
  reduce_values(what, {sources, source_count, destinations, destination_count, count});
}

}  // namespace paceline::collective::PACELINE_INSTRUCTIONS
