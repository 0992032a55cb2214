// Exports a checkpoint's tensors to other formats: whole tensors, in one process, without LibTorch.
//
// One tensor is in memory at a time. Every file appears whole or not at all; an index of several appears last. Errors:
// as TensorReader for what is read, IOError for what cannot be written, KeyError when the item has no tensors, Invalid
// for a dtype that the format lacks.
#pragma once

#include <arrow/result.h>

#include <string>
#include <vector>

#include "paceline/checkpoint/manifest.h"
#include "paceline/storage/location.h"

namespace paceline::checkpoint {

/// Where a file of safetensors ends and the next begins, by default: what Hugging Face's libraries do.
inline constexpr int64_t kMostShardBytes = 5'000'000'000;

struct Exported {
  std::vector<std::string> files;
  int64_t tensors = 0;
  int64_t bytes = 0;  // of the tensors
};

/// The tensors to export: those of `item` under their names in it; with "" all, as "<item>/<name>". KeyError when there
/// are none, naming the items that have some.
arrow::Result<std::map<std::string, std::string>> tensors_of_item(const Manifest& manifest, const std::string& item);

/// Writes `folder`/model.safetensors, or, beyond `most_shard_bytes`, model-00001-of-0000N.safetensors and
/// model.safetensors.index.json, as Hugging Face's libraries read them. Files of these names are replaced.
arrow::Result<Exported> export_safetensors(const storage::Location& checkpoint, const std::string& item,
                                           const std::string& folder, int64_t most_shard_bytes = kMostShardBytes);

/// Writes the file that `torch.load(path, weights_only=True)` reads as a dictionary of tensors (format/torch_file.h).
arrow::Result<Exported> export_torch(const storage::Location& checkpoint, const std::string& item,
                                     const std::string& path);

}  // namespace paceline::checkpoint
