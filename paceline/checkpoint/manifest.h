// Manifest: what a checkpoint consists of. docs/architecture/checkpoint_format.md describes it.
//
// A checkpoint folder is a checkpoint exactly when it has a readable `paceline_manifest.json`. Files are listed with
// size and XXH3-128 checksum. Each tensor is a global shape and slices of it: sharded models write several slices,
// replicated ones one. Pure data and codecs: no I/O here.
#pragma once

#include <arrow/result.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "paceline/checkpoint/format/shape.h"
#include "paceline/core/json.h"
#include "paceline/core/published_checkpoint.h"
#include "paceline/core/record.h"

namespace paceline::checkpoint {

/// The version that is written; later ones are refused.
inline constexpr int kManifestVersion = 2;
/// The file that makes a folder a checkpoint.
inline constexpr const char* kManifestName = "paceline_manifest.json";
/// What it is called in checkpoints of version 1. Anything else of that name is a file of the user's own.
inline constexpr const char* kFirstManifestName = "manifest.json";

/// The user's own notes (Checkpoint::set_metadata): beside the checkpoint's files, but changeable, so not among them.
inline constexpr const char* kMetadataName = ".metadata.json";

// One file of a checkpoint.
#define PACELINE_FILE_ENTRY_FIELDS(FIELD) \
  FIELD(int64_t, size, 0) /* in bytes */  \
  FIELD(std::string, checksum, "")        \
  FIELD(int64_t, rank, 0) /* that wrote it */
PACELINE_RECORD(FileEntry, PACELINE_FILE_ENTRY_FIELDS);

// One slice of a tensor, row-major: it has the elements [start, start + shape).
#define PACELINE_SLICE_FIELDS(FIELD)                    \
  FIELD(std::string, file, "")                          \
  FIELD(int64_t, offset, 0) /* in the file, in bytes */ \
  FIELD(int64_t, size, 0)   /* in bytes */              \
  FIELD(Shape, start, {})                               \
  FIELD(Shape, shape, {})                               \
  FIELD(std::string, checksum, "")
PACELINE_RECORD(Slice, PACELINE_SLICE_FIELDS);

/// Of one tensor.
using Slices = std::vector<Slice>;

// One tensor of a checkpoint.
#define PACELINE_TENSOR_ENTRY_FIELDS(FIELD)                                                  \
  FIELD(std::string, dtype, "") /* in safetensors' words: "F32", "BF16", "I64", "BOOL", … */ \
  FIELD(Shape, shape, {})                                                                    \
  FIELD(Slices, slices, {})
PACELINE_RECORD(TensorEntry, PACELINE_TENSOR_ENTRY_FIELDS);

/// By the file's name.
using FileEntries = std::map<std::string, FileEntry>;
/// By the tensor's name.
using TensorEntries = std::map<std::string, TensorEntry>;

// What is in a checkpoint, and where it comes from.
#define PACELINE_MANIFEST_FIELDS(FIELD)                                                                    \
  FIELD(int, version, kManifestVersion)                                                                    \
  FIELD(int64_t, report, 0)                                                                                \
  /* of the folder, if not after the report; in a rank's part: of the one where its files stand already */ \
  FIELD(std::string, name, "")                                                                             \
  FIELD(int64_t, attempt, 0)                                                                               \
  FIELD(int64_t, world_size, 1)                                                                            \
  FIELD(double, time, 0.0)                                                                                 \
  FIELD(Json, metrics, Json::object()) /* of rank 0's report */                                            \
  /* the JSON part of what Checkpoint::save was given, by item ("optimizer", "loader", …) */               \
  FIELD(Json, values, Json::object())                                                                      \
  FIELD(FileEntries, files, {})                                                                            \
  FIELD(TensorEntries, tensors, {})
PACELINE_RECORD(Manifest, PACELINE_MANIFEST_FIELDS);

/// One line of JSON; its last member is the checksum of the text before it.
std::string encode_manifest(const Manifest& manifest);
/// Invalid: not a manifest, damaged, or contradicting itself. NotImplemented: of a later version (names both).
arrow::Result<Manifest> decode_manifest(std::string_view text);

/// A file in a checkpoint's folder, by its name; KeyError when there is none.
using ReadFile = std::function<arrow::Result<std::string>(const std::string& name)>;
/// A manifest and the name of the file that it stands in, which depends on the version that wrote it.
struct FoundManifest {
  std::string file;   ///< kManifestName, or kFirstManifestName of checkpoints of version 1
  Manifest manifest;  ///< what it says
};
/// The folder's manifest, of whatever version. KeyError when it has none, also where a file of the user's own has the
/// first name; else what reading or decode_manifest() said, with the file's name.
arrow::Result<FoundManifest> find_manifest(const ReadFile& read);

/// The folder's name: the one given, or, for "", the report's.
std::string folder_name(const std::string& name, int64_t report);
/// What the folder of a report's checkpoint is called where that of an earlier report has the `name` that it was given.
std::string name_beside(const std::string& name, int64_t report);
/// What it would be called if the name had been free.
std::string given_name(const PublishedCheckpoint& checkpoint);
/// Whether it is the manifest of the checkpoint in the folder of that name: in a copy of one it is not.
bool belongs(const Manifest& manifest, const std::string& folder);
/// Why no checkpoint can be published in a folder that has a manifest: AlreadyExists, or what reading it said.
/// `location` is where the folder is, for users.
arrow::Status name_is_taken(const std::string& location, const std::string& folder,
                            const arrow::Result<Manifest>& manifest);
/// Why none can be published where something else is: AlreadyExists.
arrow::Status name_is_used(const std::string& location);

/// One manifest from those of the ranks, lowest rank first. Of several files with one name the lowest rank's is kept,
/// with its slices; slices of one tensor in files of several names are put together. Of values and of all else the
/// first part's are kept. Invalid when ranks disagree about a tensor's dtype or shape, or slices overlap or leave a
/// gap; names tensor and ranks.
arrow::Result<Manifest> merge(const std::vector<Manifest>& parts);

}  // namespace paceline::checkpoint
