// The checkpoints of one run folder: publish, list, verify, delete.
//
// Published checkpoints are folders `checkpoint_000042` (the report's number) with a manifest; they are never changed.
// Publication: the stages' files move into one folder in `.staging`, the manifest is written and synced, one rename
// makes it visible. Fail points: "publish.before_merge", "publish.before_manifest", "publish.before_rename",
// "publish.after_rename". Errors: IOError and Invalid name the file, what was wanted and got. Not thread-safe.
#pragma once

#include <arrow/result.h>

#include <string>
#include <vector>

#include "paceline/checkpoint/manifest.h"

namespace paceline::checkpoint {

/// One rank's stage, as its report named it.
struct StagedPart {
  int64_t rank = 0;
  std::string staged;  // relative to the run folder
};

struct Published {
  int64_t report = 0;
  std::string path;  // absolute
  Json metrics = Json::object();
  double time = 0;
};

class Store {
 public:
  explicit Store(std::string run_folder);

  /// Publishes what the ranks staged for one report; `about` gives report, attempt, world size, time and metrics.
  arrow::Result<Published> publish(const std::vector<StagedPart>& parts, Manifest about);
  /// All published checkpoints, oldest first. Folders without a manifest are not checkpoints.
  arrow::Result<std::vector<Published>> list() const;
  arrow::Status remove(int64_t report);
  /// Deletes what a crash left in `.staging`. Call before workers run.
  arrow::Status collect_leftovers();

 private:
  std::string run_folder_;
};

/// "checkpoint_000042".
std::string checkpoint_name(int64_t report);

/// Reads the manifest of a checkpoint folder.
arrow::Result<Manifest> read_manifest(const std::string& checkpoint_path);
/// Compares every file with the manifest: presence, size, checksum. Invalid names the first that differs.
arrow::Status verify(const std::string& checkpoint_path);

}  // namespace paceline::checkpoint
