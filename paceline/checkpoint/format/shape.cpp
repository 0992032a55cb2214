#include "paceline/checkpoint/format/shape.h"

#include <map>

namespace paceline::checkpoint {

arrow::Result<int64_t> element_count(const Shape& shape) {
  int64_t count = 1;
  bool overflow = false;
  bool empty = false;
  for (const int64_t length : shape) {
    if (length < 0) return arrow::Status::Invalid("shape ", to_string(shape), " has a negative dimension");
    empty = empty || length == 0;
    overflow = overflow || __builtin_mul_overflow(count, length, &count);
  }
  if (empty) return 0;
  if (overflow) return arrow::Status::Invalid("shape ", to_string(shape), " has too many elements");
  return count;
}

arrow::Result<int64_t> element_size(const std::string& dtype) {
  static const std::map<std::string, int64_t> kSizes = {
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"U16", 2}, {"I16", 2}, {"F16", 2},
      {"BF16", 2}, {"U32", 4}, {"I32", 4}, {"F32", 4},     {"U64", 8},     {"I64", 8}, {"F64", 8}, {"C64", 8}};
  const auto found = kSizes.find(dtype);
  if (found == kSizes.end()) return arrow::Status::Invalid("\"", dtype, "\" is not a dtype of safetensors");
  return found->second;
}

arrow::Result<int64_t> byte_count(const std::string& dtype, const Shape& shape) {
  ARROW_ASSIGN_OR_RAISE(const int64_t size, element_size(dtype));
  ARROW_ASSIGN_OR_RAISE(int64_t count, element_count(shape));
  if (__builtin_mul_overflow(count, size, &count)) {
    return arrow::Status::Invalid("a tensor ", to_string(shape), " of ", dtype, " has too many bytes");
  }
  return count;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (const int64_t length : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(length);
  return text + "]";
}

}  // namespace paceline::checkpoint
