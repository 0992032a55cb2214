// The checkpoints of one run folder: publish, list, verify, delete.
//
// Published checkpoints are folders `checkpoint_000042` (the report's number) with a manifest; they are never changed.
// Publication: the stages' files move into one folder in `.staging`, the manifest is written and synced, one rename
// makes it visible. Fail points: "publish.before_merge", "publish.before_manifest", "publish.before_rename",
// "publish.after_rename"; deletion: "remove.after_rename". Errors: IOError for what cannot be written, is missing or is
// damaged, Invalid for ranks that disagree; they name the file, what was wanted and got. Not thread-safe.
#pragma once

#include <arrow/result.h>

#include <string>
#include <vector>

#include "paceline/checkpoint/manifest.h"
#include "paceline/core/ids.h"

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
  /// AlreadyExists when that report's checkpoint is there; what is no checkpoint under that name makes way.
  arrow::Result<Published> publish(const std::vector<StagedPart>& parts, Manifest about);
  /// All published checkpoints, oldest first. Folders without a readable manifest are not checkpoints.
  arrow::Result<std::vector<Published>> list() const;
  /// Deletes a checkpoint; none of that report is not an error. A crash leaves it whole or gone.
  arrow::Status remove(int64_t report);
  /// Deletes what a worker that has ended has staged and nobody has published.
  arrow::Status discard_stages(Attempt attempt, WorkerId worker);
  /// Deletes what a crash left in `.staging`, and temporary files. Call before workers run.
  arrow::Status collect_leftovers();

 private:
  std::string run_folder_;
};

/// "checkpoint_000042".
std::string checkpoint_name(int64_t report);

/// Reads the manifest of a checkpoint folder. IOError when there is none or it is damaged.
arrow::Result<Manifest> read_manifest(const std::string& checkpoint_path);
/// Finds missing and truncated files by their sizes, without reading them. IOError names the first.
arrow::Status check_sizes(const std::string& checkpoint_path, const Manifest& manifest);
/// Compares every file with the manifest: presence, size, checksum. IOError names the first that differs. Files that
/// the manifest does not name, such as `.metadata.json`, are the user's affair.
arrow::Status verify(const std::string& checkpoint_path);

}  // namespace paceline::checkpoint
