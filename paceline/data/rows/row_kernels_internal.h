// Loops over the rows of a column whose rows are some bytes each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace paceline::data {

/// A row's bytes, whose number is known when this is compiled.
template <size_t kBytes>
struct Value {
  uint8_t bytes[kBytes];
  static constexpr size_t size() { return kBytes; }
};

/// Calls `what` with a Value of so many bytes; false where they are of another number than rows have mostly.
template <typename What>
bool with_row_type(int64_t bytes, const What& what) {
  switch (bytes) {
    case 1:
      what(Value<1>());
      return true;
    case 2:
      what(Value<2>());
      return true;
    case 4:
      what(Value<4>());
      return true;
    case 8:
      what(Value<8>());
      return true;
    case 12:
      what(Value<12>());
      return true;
    case 16:
      what(Value<16>());
      return true;
    default:
      return false;
  }
}

/// Four places, by one load where they are short: a quarter faster.
template <typename Place, typename What>
void with_four(const Place* places, const What& what) {
  if constexpr (sizeof(Place) == sizeof(uint16_t)) {
    uint64_t four = 0;
    std::memcpy(&four, places, sizeof four);
    what(four & 0xffff, (four >> 16) & 0xffff, (four >> 32) & 0xffff, four >> 48);
  } else {
    what(places[0], places[1], places[2], places[3]);
  }
}

/// Row i of `source` becomes row places[i] of `target`. Meanwhile the cache fetches what is written next, from `next`
/// on: where places follow each other in some hundred sequences, stores would wait for it.
template <typename Row, typename Place>
void deal_rows(const uint8_t* source, uint8_t* target, std::span<const Place> places, const uint8_t* next) {
  constexpr size_t kAtOnce = 4;
  constexpr size_t kLine = 64;
  constexpr size_t kRowsOfLine = Row::size() * kAtOnce < kLine ? kLine / Row::size() / kAtOnce * kAtOnce : kAtOnce;
  const auto* __restrict from = reinterpret_cast<const Row*>(source);
  auto* __restrict to = reinterpret_cast<Row*>(target);
  size_t i = 0;
  for (; i + kRowsOfLine <= places.size(); i += kRowsOfLine) {
    __builtin_prefetch(next + i * Row::size(), /*rw=*/1);
    for (size_t row = i; row < i + kRowsOfLine; row += kAtOnce) {
      with_four(&places[row], [&](size_t first, size_t second, size_t third, size_t fourth) {
        to[first] = from[row];
        to[second] = from[row + 1];
        to[third] = from[row + 2];
        to[fourth] = from[row + 3];
      });
    }
  }
  for (; i < places.size(); ++i) to[places[i]] = from[i];
}

/// Row places[i] of `source` becomes row i of `target`.
template <typename Row>
void take_rows(const uint8_t* source, uint8_t* target, std::span<const uint16_t> places) {
  const auto* __restrict from = reinterpret_cast<const Row*>(source);
  auto* __restrict to = reinterpret_cast<Row*>(target);
  size_t i = 0;
  for (; i + 4 <= places.size(); i += 4) {
    with_four(&places[i], [&](size_t first, size_t second, size_t third, size_t fourth) {
      to[i] = from[first];
      to[i + 1] = from[second];
      to[i + 2] = from[third];
      to[i + 3] = from[fourth];
    });
  }
  for (; i < places.size(); ++i) to[i] = from[places[i]];
}

}  // namespace paceline::data
