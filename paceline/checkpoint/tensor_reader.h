// Reads tensors of a published checkpoint, with their checksums checked.
//
// Only the bytes of the tensors asked for are read, straight into the caller's memory where slices allow it.
// Thread-safe once open. Errors: IOError for a missing, truncated or damaged file, naming tensor, file, wanted and got;
// KeyError for a tensor that is not there; Invalid for a target of the wrong size.
#pragma once

#include <arrow/result.h>

#include <cstddef>
#include <span>
#include <string>

#include "paceline/checkpoint/manifest.h"

namespace paceline::checkpoint {

class TensorReader {
 public:
  /// Reads the manifest, and finds missing and truncated files by their sizes.
  static arrow::Result<TensorReader> open(const std::string& checkpoint_path);

  /// The checkpoint's folder.
  const std::string& path() const { return path_; }
  const Manifest& manifest() const { return manifest_; }
  /// Fills `target` with the tensor in row-major order, whatever the slices; its size must be the tensor's.
  arrow::Status read(const std::string& name, std::span<std::byte> target) const;

 private:
  TensorReader(std::string path, Manifest manifest) : path_(std::move(path)), manifest_(std::move(manifest)) {}
  std::string path_;
  Manifest manifest_;
};

}  // namespace paceline::checkpoint
