// Reads tensors of a published checkpoint, whole or in part, with their checksums checked.
//
// Not thread-safe. Errors: Invalid names tensor, file, wanted and got; a checkpoint with a flipped bit, a missing or a
// truncated file is refused.
#pragma once

#include <arrow/result.h>

#include <cstddef>
#include <span>
#include <string>

#include "paceline/checkpoint/manifest.h"

namespace paceline::checkpoint {

class TensorReader {
 public:
  static arrow::Result<TensorReader> open(const std::string& checkpoint_path);

  const Manifest& manifest() const { return manifest_; }
  /// Fills `target` with the tensor in row-major order, whatever the slices; its size must be the tensor's.
  arrow::Status read(const std::string& name, std::span<std::byte> target) const;

 private:
  TensorReader(std::string path, Manifest manifest) : path_(std::move(path)), manifest_(std::move(manifest)) {}
  std::string path_;
  Manifest manifest_;
};

/// Bytes of one element of a safetensors dtype; Invalid for an unknown one.
arrow::Result<int64_t> element_size(const std::string& dtype);

}  // namespace paceline::checkpoint
