#include "paceline/collective/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <vector>

namespace paceline::collective {

namespace portable {
void reduce(const Reduce& what, const void* const* sources, size_t source_count, void* const* destinations,
            size_t destination_count, size_t count);
}

namespace {

constexpr Element kElements[] = {Element::float32, Element::float64, Element::float16,   Element::bfloat16,
                                 Element::int8,    Element::uint8,   Element::int16,     Element::int32,
                                 Element::int64,   Element::boolean, Element::complex64, Element::complex128};
constexpr Reduction kReductions[] = {Reduction::sum,        Reduction::mean,       Reduction::product,
                                     Reduction::min,        Reduction::max,        Reduction::bitwise_and,
                                     Reduction::bitwise_or, Reduction::bitwise_xor};

template <class T>
std::vector<T> reduced(const Reduce& what, const std::vector<std::vector<T>>& ranks) {
  std::vector<const void*> sources;
  for (const auto& values : ranks) sources.push_back(values.data());
  std::vector<T> result(ranks.front().size());
  void* const destination = result.data();
  reduce(what, sources.data(), sources.size(), &destination, 1, result.size());
  return result;
}

template <class T>
T of_two(Element element, Reduction reduction, T a, T b) {
  return reduced<T>({.element = element, .reduction = reduction}, {{a}, {b}}).front();
}

TEST(Reduce, IsTheSameBitsWithWhateverInstructions) {
  std::mt19937_64 random(1);
  for (const Element element : kElements) {
    for (const Reduction reduction : kReductions) {
      if (!has(element, reduction)) continue;
      for (const size_t ranks : {1U, 2U, 3U, 8U}) {
        for (const size_t count : {0U, 1U, 7U, 1023U, 1024U, 2500U}) {
          for (const double factor : {1.0, 0.37}) {
            const size_t bytes = count * size_of(element);
            std::vector<std::vector<uint8_t>> inputs(ranks, std::vector<uint8_t>(bytes));
            std::vector<const void*> sources;
            for (auto& input : inputs) {
              for (uint8_t& byte : input)
                byte = static_cast<uint8_t>(element == Element::boolean ? random() % 2 : random());
              sources.push_back(input.data());
            }
            std::vector<uint8_t> one(bytes), two(bytes), three(bytes);
            void* const best[] = {one.data(), two.data()};
            void* const plain[] = {three.data()};
            const Reduce what{.element = element, .reduction = reduction, .factor = factor};
            reduce(what, sources.data(), ranks, best, 2, count);
            portable::reduce(what, sources.data(), ranks, plain, 1, count);
            EXPECT_EQ(one, two);
            // Of what is no number, which one comes out may differ; that it is none may not.
            const bool has_nan = !has(element, Reduction::bitwise_and);
            if (!has_nan) {
              ASSERT_EQ(one, three) << to_string(element) << " " << to_string(reduction) << " " << ranks << " "
                                    << count;
            }
          }
        }
      }
    }
  }
}

template <class Real>
void sums_in_the_order_of_ranks(Element element) {
  std::mt19937_64 random(2);
  std::uniform_real_distribution<Real> values(-10, 10);
  for (const size_t ranks : {2U, 3U, 5U}) {
    std::vector<std::vector<Real>> inputs(ranks, std::vector<Real>(3001));
    for (auto& input : inputs) {
      for (Real& value : input) value = values(random);
    }
    const auto sum = reduced<Real>({.element = element}, inputs);
    const auto mean = reduced<Real>({.element = element, .reduction = Reduction::mean}, inputs);
    const auto half = reduced<Real>({.element = element, .factor = 0.5}, inputs);
    const auto product = reduced<Real>({.element = element, .reduction = Reduction::product}, inputs);
    for (size_t i = 0; i < sum.size(); ++i) {
      Real wanted = inputs[0][i], factors = inputs[0][i], halves = inputs[0][i] * Real(0.5);
      for (size_t rank = 1; rank < ranks; ++rank) {
        wanted += inputs[rank][i];
        factors *= inputs[rank][i];
        halves += inputs[rank][i] * Real(0.5);
      }
      ASSERT_EQ(sum[i], wanted);
      ASSERT_EQ(mean[i], wanted / static_cast<Real>(ranks));
      ASSERT_EQ(half[i], halves);
      ASSERT_EQ(product[i], factors);
    }
  }
}

// From and to any place.
TEST(Reduce, CopiesPastTheCaches) {
  std::mt19937 random(1);
  std::vector<std::byte> bytes(kPastCachesBytes + 200), copy(bytes.size());
  std::ranges::generate(bytes, [&] { return static_cast<std::byte>(random()); });
  for (const size_t offset : {0U, 1U, 63U}) {
    for (const size_t size : {kPastCachesBytes + 77, size_t{10}}) {
      const auto from = std::span(bytes).subspan(5 + offset, size);
      copy_past_caches(copy.data() + offset, from.data(), size);
      EXPECT_TRUE(std::ranges::equal(from, std::span(copy).subspan(offset, size)));
    }
  }
}

TEST(Reduce, SumsInTheOrderOfTheRanks) {
  sums_in_the_order_of_ranks<float>(Element::float32);
  sums_in_the_order_of_ranks<double>(Element::float64);
}

uint16_t bfloat16_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<uint16_t>(bits >> 16);
}

TEST(Reduce, SmallFloatsAreSummedAsFloat32) {
  // 256 + 1 is 256 in bfloat16; of four ranks' sum that is exact in float32 nothing is lost before the end.
  const uint16_t large = bfloat16_of(256), one = bfloat16_of(1);
  EXPECT_EQ(reduced<uint16_t>({.element = Element::bfloat16}, {{large}, {one}, {one}, {bfloat16_of(-256)}}).front(),
            bfloat16_of(2));
  EXPECT_EQ(of_two<uint16_t>(Element::bfloat16, Reduction::sum, bfloat16_of(1), 0x3b80),
            bfloat16_of(1));                                                               // 2^-8: ties to even
  EXPECT_EQ(of_two<uint16_t>(Element::bfloat16, Reduction::sum, 0x3f81, 0x3b80), 0x3f82);  // and up from odd
  EXPECT_TRUE((of_two<uint16_t>(Element::bfloat16, Reduction::sum, 0x7f80, 0xff80) & 0x7fff) > 0x7f80);  // inf - inf
  EXPECT_EQ(of_two<_Float16>(Element::float16, Reduction::sum, _Float16(60000), _Float16(60000)),
            std::numeric_limits<float>::infinity());
}

TEST(Reduce, WhatIsNoNumberWins) {
  const float none = std::numeric_limits<float>::quiet_NaN();
  for (const Reduction reduction : {Reduction::min, Reduction::max}) {
    EXPECT_TRUE(std::isnan(of_two<float>(Element::float32, reduction, none, 1)));
    EXPECT_TRUE(std::isnan(of_two<float>(Element::float32, reduction, 1, none)));
  }
  EXPECT_EQ(of_two<float>(Element::float32, Reduction::min, -1, 1), -1);
  EXPECT_EQ(of_two<float>(Element::float32, Reduction::max, -1, 1), 1);
}

TEST(Reduce, IntegersWrapAndBooleansAreLogical) {
  EXPECT_EQ(of_two<int8_t>(Element::int8, Reduction::sum, 127, 1), -128);
  EXPECT_EQ(of_two<int64_t>(Element::int64, Reduction::sum, std::numeric_limits<int64_t>::max(), 1),
            std::numeric_limits<int64_t>::min());
  EXPECT_EQ(of_two<int16_t>(Element::int16, Reduction::product, 300, 300), static_cast<int16_t>(90000));
  EXPECT_EQ(of_two<int32_t>(Element::int32, Reduction::min, -5, 3), -5);
  EXPECT_EQ(of_two<uint8_t>(Element::uint8, Reduction::max, 200, 3), 200);
  EXPECT_EQ(of_two<uint8_t>(Element::boolean, Reduction::sum, 1, 1), 1);
  EXPECT_EQ(of_two<uint8_t>(Element::boolean, Reduction::product, 1, 0), 0);
  EXPECT_EQ(of_two<uint8_t>(Element::boolean, Reduction::bitwise_xor, 1, 1), 0);
}

TEST(Reduce, TheMeanOfIntegersHasNoFraction) {
  EXPECT_EQ(of_two<int64_t>(Element::int64, Reduction::mean, 4, 3), 3);
  EXPECT_EQ(of_two<int32_t>(Element::int32, Reduction::mean, -4, -3), -3);
  EXPECT_EQ(of_two<uint8_t>(Element::uint8, Reduction::mean, 200, 7), 103);
  const std::vector<std::vector<int8_t>> ranks(200, {100});  // neither their number nor their sum is an int8
  EXPECT_EQ(reduced<int8_t>({.element = Element::int8, .reduction = Reduction::mean}, ranks).front(), 100);
}

TEST(Reduce, ComplexNumbersAreMultipliedAsSuch) {
  struct Number {
    float real, imaginary;
  };
  const Number product = of_two<Number>(Element::complex64, Reduction::product, {1, 2}, {3, 4});
  EXPECT_EQ(product.real, -5);
  EXPECT_EQ(product.imaginary, 10);
}

TEST(Reduce, WhatATypeHas) {
  EXPECT_FALSE(has(Element::boolean, Reduction::mean));
  EXPECT_FALSE(has(Element::complex64, Reduction::max));
  EXPECT_FALSE(has(Element::float32, Reduction::bitwise_or));
  EXPECT_TRUE(has(Element::boolean, Reduction::bitwise_or));
}

}  // namespace
}  // namespace paceline::collective
