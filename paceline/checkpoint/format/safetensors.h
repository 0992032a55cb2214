// The head of a safetensors file: where each tensor's bytes stand. Pure codec, no I/O.
//
// A file is: length of the JSON (uint64, little endian), the JSON padded with spaces to a multiple of 8, the tensors'
// bytes without gaps. Larger elements stand first, so that every tensor is aligned to its element's size.
#pragma once

#include <arrow/result.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/checkpoint/format/shape.h"

namespace paceline::checkpoint {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;
  Shape shape;
  int64_t offset = 0;  // in the file
  int64_t size = 0;    // bytes

  bool operator==(const SafetensorsEntry&) const = default;
};

struct SafetensorsHead {
  std::string bytes;                      // what the file starts with; the first tensor's bytes follow
  std::vector<SafetensorsEntry> entries;  // in the order of the file
};

/// Notes beside the tensors: the file's `__metadata__`.
using SafetensorsMetadata = std::map<std::string, std::string>;

/// Lays out tensors of which name, dtype and shape are given. Invalid for a name that is there twice or reserved.
arrow::Result<SafetensorsHead> encode_safetensors(std::vector<SafetensorsEntry> tensors,
                                                  const SafetensorsMetadata& metadata = {});

/// The longest head that is read: the limit of the safetensors library.
inline constexpr int64_t kMaxSafetensorsHead = 100'000'000;

/// Bytes of the whole head, told by its first 8 bytes. Invalid when it cannot be.
arrow::Result<int64_t> safetensors_head_size(std::string_view first_8_bytes);
/// Entries in the order of the file, of a whole file of `file_size` bytes that starts with `head`. Invalid when tensors
/// overlap, leave gaps, or do not have the size of their shape.
arrow::Result<std::vector<SafetensorsEntry>> decode_safetensors(std::string_view head, int64_t file_size);

}  // namespace paceline::checkpoint
