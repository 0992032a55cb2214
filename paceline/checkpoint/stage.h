// A worker's side of a checkpoint: put this rank's files, durably, where the publisher can take them.
//
// A stage is the folder `.staging/DRIVER/attempt_A/worker_W/report_K` of the run with the rank's files and, written
// last, `report_K.json` beside it, a manifest of these files. DRIVER is a random name: a run may have had, or have
// meanwhile, a driver with the same attempts and workers. Nothing here is visible as a checkpoint. A node
// whose disk the publisher does not see sends its stages to the run's object store, under the same names. Not
// thread-safe.
// Errors: IOError with path and reason; Invalid for what cannot be in a checkpoint.
#pragma once

#include <arrow/result.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "paceline/checkpoint/manifest.h"
#include "paceline/core/ids.h"
#include "paceline/storage/storage.h"

namespace paceline::checkpoint {

/// A tensor to be written: contiguous bytes in row-major order. The bytes stay the caller's until write() returns.
struct TensorBytes {
  std::string name;
  std::string dtype;
  Shape global_shape;
  Shape start;
  Shape shape;
  std::span<const std::byte> bytes;
};

/// The part's manifest stands beside the stage's folder, with this ending.
inline constexpr const char* kPartEnding = ".json";

/// The worker's stage of that number, relative to the run folder.
std::string stage_of(const Identity& identity, int64_t number, const std::string& driver = "");

class Stage {
 public:
  /// Makes an empty folder for the worker's stage of that number.
  static arrow::Result<Stage> create(const std::string& run_folder, const Identity& identity, int64_t number,
                                     const std::string& driver = "");

  /// Writes `tensors` as the safetensors file `file` and enters file and slices. Readable by Python's safetensors,
  /// which sees each slice as a tensor of the slice's shape. In the manifest the tensors are called "<item>/<name>", or
  /// as in the file when there is no `item`.
  arrow::Status write_tensors(const std::string& file, const std::vector<TensorBytes>& tensors,
                              const std::string& item = "");
  /// Adds JSON under `item` to the manifest's values.
  void add_value(const std::string& item, Json value);
  /// Copies all files below `folder` (links are followed; special files refused); the folder is not changed. Where it
  /// is a checkpoint of Paceline's, or a copy of one, tensors of unchanged files and values are taken over.
  arrow::Status copy_folder(const std::string& folder);
  /// Instead of files in the stage: enters all files of the folder `name` right below the run's, where they stay and
  /// become the checkpoint's. Each is read once, for its checksum. Tensors and values as copy_folder().
  arrow::Status adopt_folder(const std::string& name);
  /// Takes tensors of unchanged files and values over from what another stage of this run has finished: for files that
  /// were copied from there.
  arrow::Status take_over_from(const std::string& relative);
  /// Syncs all files and writes the manifest of the part. Gives the folder relative to the run's, as Report::staged
  /// wants it.
  arrow::Result<std::string> finish();

  const std::string& folder() const { return folder_; }
  /// Moves what finish() has given to the run's object store.
  static arrow::Status send(const std::string& run_folder, const std::string& relative, storage::Storage& objects);
  /// Deletes what finish() has given.
  static arrow::Status discard(const std::string& run_folder, const std::string& relative);

 private:
  Stage(std::string run_folder, std::string relative);
  arrow::Status make_folder_of(const std::string& file);
  void take_over(const Manifest& manifest);
  arrow::Status check_depth() const;
  arrow::Status sync_files() const;
  // Where the files are.
  std::string place() const { return part_.name.empty() ? folder_ : run_folder_ + "/" + part_.name; }

  std::string run_folder_;
  std::string relative_;
  std::string folder_;
  Manifest part_;
};

}  // namespace paceline::checkpoint
