#include "paceline/checkpoint/diff.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "paceline/checkpoint/format/shape.h"
#include "paceline/checkpoint/tensor_reader.h"

namespace paceline::checkpoint {
namespace {

// IEEE 754 half precision.
double from_half(uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f;
  const int fraction = bits & 0x3ff;
  double value = 0;
  if (exponent == 0x1f) {
    value = fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  } else {
    value = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 1024, exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

double from_brain(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

template <class Raw, class Convert>
void compare(std::span<const std::byte> first, std::span<const std::byte> second, const Convert& convert,
             TensorDifference& difference) {
  double greatest = 0;
  for (size_t at = 0; at + sizeof(Raw) <= first.size(); at += sizeof(Raw)) {
    Raw a{}, b{};
    std::memcpy(&a, first.data() + at, sizeof a);
    std::memcpy(&b, second.data() + at, sizeof b);
    const double x = convert(a), y = convert(b);
    if (std::isfinite(x)) greatest = std::max(greatest, std::abs(x));
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    ++difference.differing;
    const double apart = std::abs(x - y);
    difference.largest = std::max(difference.largest, std::isnan(apart) ? HUGE_VAL : apart);
  }
  difference.relative = greatest > 0 ? difference.largest / greatest : difference.largest;
}

template <class Raw>
void compare_as(std::span<const std::byte> first, std::span<const std::byte> second, TensorDifference& difference) {
  compare<Raw>(first, second, [](Raw raw) { return static_cast<double>(raw); }, difference);
}

void compare_values(const std::string& dtype, std::span<const std::byte> first, std::span<const std::byte> second,
                    TensorDifference& difference) {
  if (dtype == "F64") return compare_as<double>(first, second, difference);
  if (dtype == "F32" || dtype == "C64") return compare_as<float>(first, second, difference);
  if (dtype == "F16") return compare<uint16_t>(first, second, from_half, difference);
  if (dtype == "BF16") return compare<uint16_t>(first, second, from_brain, difference);
  if (dtype == "I64") return compare_as<int64_t>(first, second, difference);
  if (dtype == "U64") return compare_as<uint64_t>(first, second, difference);
  if (dtype == "I32") return compare_as<int32_t>(first, second, difference);
  if (dtype == "U32") return compare_as<uint32_t>(first, second, difference);
  if (dtype == "I16") return compare_as<int16_t>(first, second, difference);
  if (dtype == "U16") return compare_as<uint16_t>(first, second, difference);
  if (dtype == "I8") return compare_as<int8_t>(first, second, difference);
  if (dtype == "U8" || dtype == "BOOL") return compare_as<uint8_t>(first, second, difference);
  for (size_t at = 0; at < first.size(); ++at) difference.differing += first[at] != second[at] ? 1 : 0;
  difference.largest = difference.relative = -1;
}

bool have_same_bytes(const TensorEntry& first, const TensorEntry& second) {
  return std::ranges::equal(first.slices, second.slices, [](const Slice& a, const Slice& b) {
    return a.start == b.start && a.shape == b.shape && a.checksum == b.checksum;
  });
}

std::string kind_of(const TensorEntry& tensor) {
  return tensor.dtype + " " + to_string(tensor.shape);
}

arrow::Status compare_tensors(const TensorReader& first, const TensorReader& second, CheckpointDiff& diff) {
  for (const auto& [name, ours] : first.manifest().tensors) {
    const auto found = second.manifest().tensors.find(name);
    if (found == second.manifest().tensors.end()) {
      diff.only_first.push_back(name);
      continue;
    }
    const TensorEntry& theirs = found->second;
    if (ours.dtype != theirs.dtype || ours.shape != theirs.shape) {
      diff.changed.push_back({name, kind_of(ours), kind_of(theirs)});
      continue;
    }
    TensorDifference difference{.name = name};
    if (!have_same_bytes(ours, theirs)) {
      ARROW_ASSIGN_OR_RAISE(const auto a, first.read_whole(name));
      ARROW_ASSIGN_OR_RAISE(const auto b, second.read_whole(name));
      ARROW_ASSIGN_OR_RAISE(difference.elements, element_count(ours.shape));
      compare_values(ours.dtype, a, b, difference);
    }
    if (difference.differing == 0) {
      ++diff.equal;
    } else {
      diff.differences.push_back(std::move(difference));
    }
  }
  for (const auto& [name, tensor] : second.manifest().tensors) {
    if (!first.manifest().tensors.contains(name)) diff.only_second.push_back(name);
  }
  std::ranges::stable_sort(diff.differences, std::ranges::greater(), &TensorDifference::largest);
  return arrow::Status::OK();
}

}  // namespace

arrow::Result<CheckpointDiff> diff(const storage::Location& first, const storage::Location& second) {
  ARROW_ASSIGN_OR_RAISE(const TensorReader ours, TensorReader::open(first));
  ARROW_ASSIGN_OR_RAISE(const TensorReader theirs, TensorReader::open(second));
  CheckpointDiff diff;
  ARROW_RETURN_NOT_OK(compare_tensors(ours, theirs, diff));
  const Json& a = ours.manifest().values;
  const Json& b = theirs.manifest().values;
  for (const auto& [item, value] : a.items()) {
    if (!b.contains(item) || b.at(item) != value) diff.values.push_back(item);
  }
  for (const auto& [item, value] : b.items()) {
    if (!a.contains(item)) diff.values.push_back(item);
  }
  return diff;
}

bool is_equal(const CheckpointDiff& diff) {
  return diff.only_first.empty() && diff.only_second.empty() && diff.changed.empty() && diff.differences.empty() &&
         diff.values.empty();
}

}  // namespace paceline::checkpoint
