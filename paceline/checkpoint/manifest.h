// Manifest: what a checkpoint consists of. Version 1 is described in docs/architecture/checkpoint_format.md.
//
// A checkpoint folder is a checkpoint exactly when it has a readable `manifest.json`. Files are listed with size and
// XXH3-128 checksum. Each tensor is a global shape and slices of it: sharded models write several slices, replicated
// ones one. Pure data and codecs: no I/O here.
#pragma once

#include <arrow/result.h>

#include <map>
#include <string>
#include <vector>

#include "paceline/checkpoint/format/shape.h"
#include "paceline/core/json.h"
#include "paceline/core/record.h"

namespace paceline::checkpoint {

/// The version that is written; later ones are refused.
inline constexpr int kManifestVersion = 1;
/// The file that makes a folder a checkpoint.
inline constexpr const char* kManifestName = "manifest.json";

/// The user's own notes (Checkpoint::set_metadata): beside the checkpoint's files, but changeable, so not among them.
inline constexpr const char* kMetadataName = ".metadata.json";

// One file: its size in bytes, its checksum, and the rank that wrote it.
#define PACELINE_FILE_ENTRY_FIELDS(FIELD) \
  FIELD(int64_t, size, 0)                 \
  FIELD(std::string, checksum, "")        \
  FIELD(int64_t, rank, 0)
PACELINE_RECORD(FileEntry, PACELINE_FILE_ENTRY_FIELDS);

// One slice: `size` bytes at `offset` of `file` hold the elements [start, start + shape) of the tensor, row-major.
#define PACELINE_SLICE_FIELDS(FIELD) \
  FIELD(std::string, file, "")       \
  FIELD(int64_t, offset, 0)          \
  FIELD(int64_t, size, 0)            \
  FIELD(Shape, start, {})            \
  FIELD(Shape, shape, {})            \
  FIELD(std::string, checksum, "")
PACELINE_RECORD(Slice, PACELINE_SLICE_FIELDS);

/// Of one tensor.
using Slices = std::vector<Slice>;

// `dtype` in safetensors' words: "F32", "BF16", "I64", "BOOL", …
#define PACELINE_TENSOR_ENTRY_FIELDS(FIELD) \
  FIELD(std::string, dtype, "")             \
  FIELD(Shape, shape, {})                   \
  FIELD(Slices, slices, {})
PACELINE_RECORD(TensorEntry, PACELINE_TENSOR_ENTRY_FIELDS);

/// By the file's name.
using FileEntries = std::map<std::string, FileEntry>;
/// By the tensor's name.
using TensorEntries = std::map<std::string, TensorEntry>;

// `values`: the JSON part of what Checkpoint::save was given, by item ("optimizer", "loader", …).
// `metrics`: those of rank 0's report. `report`, `attempt`, `world_size`: where it comes from. `name`: of the folder,
// if it is not called after the report; in a rank's part: of the folder in which its files stand already.
#define PACELINE_MANIFEST_FIELDS(FIELD) \
  FIELD(int, version, kManifestVersion) \
  FIELD(int64_t, report, 0)             \
  FIELD(std::string, name, "")          \
  FIELD(int64_t, attempt, 0)            \
  FIELD(int64_t, world_size, 1)         \
  FIELD(double, time, 0.0)              \
  FIELD(Json, metrics, Json::object())  \
  FIELD(Json, values, Json::object())   \
  FIELD(FileEntries, files, {})         \
  FIELD(TensorEntries, tensors, {})
PACELINE_RECORD(Manifest, PACELINE_MANIFEST_FIELDS);

/// One line of JSON; its last member is the checksum of the text before it.
std::string encode_manifest(const Manifest& manifest);
/// Invalid: not a manifest, damaged, contradicting itself, or of a later version (names both).
arrow::Result<Manifest> decode_manifest(std::string_view text);

/// One manifest from those of the ranks, lowest rank first. Of several files with one name the lowest rank's is kept,
/// with its slices; slices of one tensor in files of several names are put together. Of values and of all else the
/// first part's are kept. Invalid when ranks disagree about a tensor's dtype or shape, or slices overlap or leave a
/// gap; names tensor and ranks.
arrow::Result<Manifest> merge(const std::vector<Manifest>& parts);

}  // namespace paceline::checkpoint
