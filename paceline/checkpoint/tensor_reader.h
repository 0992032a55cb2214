// Reads tensors of a published checkpoint, with their checksums checked.
//
// Only the bytes of the tensors asked for are read, straight into the caller's memory where slices allow it.
// Thread-safe once open. Errors: IOError for a missing, truncated or damaged file, naming tensor, file, wanted and got;
// KeyError for a tensor that is not there; Invalid for a target of the wrong size.
#pragma once

#include <arrow/result.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "paceline/checkpoint/manifest.h"
#include "paceline/storage/location.h"

namespace paceline::checkpoint {

/// The tensors of one checkpoint.
///
///     ARROW_ASSIGN_OR_RAISE(const auto reader, TensorReader::open(checkpoint_path));
///     ARROW_ASSIGN_OR_RAISE(const auto bytes, reader.read_whole("model/fc.weight"));
class TensorReader {
 public:
  /// Reads the manifest, and finds missing and truncated files by their sizes. Where it has no tensors, those of the
  /// safetensors files among its files are entered (tensor_files.h).
  static arrow::Result<TensorReader> open(const storage::Location& checkpoint_path);

  /// The checkpoint's folder.
  const storage::Location& path() const { return path_; }
  /// What the checkpoint consists of.
  const Manifest& manifest() const { return manifest_; }
  /// Fills `target` with the tensor in row-major order, whatever the slices; its size must be the tensor's.
  arrow::Status read(const std::string& name, std::span<std::byte> target) const;
  /// The bytes of the whole tensor.
  arrow::Result<std::vector<std::byte>> read_whole(const std::string& name) const;

 private:
  struct Files;  // open already
  TensorReader(storage::Location path, Manifest manifest, std::shared_ptr<Files> files);

  storage::Location path_;
  Manifest manifest_;
  std::shared_ptr<Files> files_;
};

}  // namespace paceline::checkpoint
