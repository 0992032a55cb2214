// The checkpoints of one run folder: publish, list, verify, delete.
//
// Published checkpoints are folders `checkpoint_000042` (the report's number), or of another name that the report gave,
// with a manifest; they are never changed.
// Publication: the stages' files move into one folder in `.staging`, the manifest is written and synced, one rename
// makes it visible. Where ranks have put files into the checkpoint's folder themselves, the others' move there, and the
// manifest makes it a checkpoint. A report that gives its checkpoint the name of an earlier report's replaces that one:
// the two folders are exchanged at once. Where a file system, or an object store, cannot do that, the new one stands
// beside it, under name_beside(), and the caller deletes the earlier. A publisher that hangs and wakes up when another
// driver has the run finds its files gone, and has no folder in common with its successor. Fail points:
// "publish.before_removal" (of what makes way), "publish.before_merge", "publish.before_manifest",
// "publish.before_rename", "publish.exchange" (an error: the file system cannot), "publish.after_rename"; deletion:
// "remove.after_rename". In an object store:
// object_checkpoint.h. A folder without a manifest, with a damaged one, or with another folder's (a copy) is no
// checkpoint; a manifest that cannot be read, or is of a later version, is an error. Errors: IOError for what cannot be
// written, is missing or is damaged, Invalid for ranks that disagree, NotImplemented for a later version; they name the
// file, what was wanted and got. Not thread-safe.
#pragma once

#include <arrow/result.h>

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "paceline/checkpoint/manifest.h"
#include "paceline/core/ids.h"
#include "paceline/core/published_checkpoint.h"
#include "paceline/storage/storage.h"

namespace paceline::checkpoint {

/// One rank's stage, as its report named it.
struct StagedPart {
  /// Whose it is.
  int64_t rank = 0;
  /// Its folder, relative to the run folder.
  std::string staged;
};

/// A checkpoint that readers may believe, and where it is. Its name is never "".
struct Published : PublishedCheckpoint {
  /// Its folder.
  storage::Location path;
  /// What went wrong when it was published already, as a sentence for the log: it could not be tidied up, or its folder
  /// not be synced.
  std::string warning;
};

/// Those of one run.
///
///     for (const auto& published : Store(run_folder).list().ValueOrDie()) std::cout << published.path << "\n";
class Store {
 public:
  /// Stages are in the local `run_folder`; published checkpoints in `objects`, or, without it, there too.
  /// `folder_ending` stands behind the names of folders that are published in `objects`.
  explicit Store(std::string run_folder, std::shared_ptr<storage::Storage> objects = nullptr,
                 std::string folder_ending = "");

  /// For a driver: its name in the paths of its stages (stage.h), and what allows a change right before it is made, on
  /// the thread that makes it: of a run that another driver may have taken. Null allows all.
  void belong_to(std::string driver, std::function<arrow::Status()> gate);

  /// For a driver whose workers may be on other nodes: they send stages to `objects` (Stage::send()).
  void expect_sent_stages() { expects_sent_stages_ = objects_ != nullptr; }

  /// For readers: the checkpoints of the run at a location.
  static arrow::Result<Store> at(const storage::Location& location);

  /// Publishes what the ranks staged for one report; `about` gives report, attempt, world size, time, metrics and, if
  /// it is not the report's, the folder's name. AlreadyExists when there is a checkpoint of the same report or a later
  /// one of that name, or a copy of another; what is no checkpoint under the report's name makes way, under another it
  /// is refused. Invalid when ranks have put files into folders of different names. Once readers can see it, there is
  /// no error.
  arrow::Result<Published> publish(const std::vector<StagedPart>& parts, Manifest about);
  /// All published checkpoints, oldest first.
  arrow::Result<std::vector<Published>> list() const;
  /// Deletes the checkpoint with that folder's name; none is not an error. A crash leaves it whole or gone.
  arrow::Status remove(const std::string& name);
  /// Deletes what a worker that has ended has staged and nobody has published.
  arrow::Status discard_stages(Attempt attempt, WorkerId worker);
  /// Deletes what a crash left in `.staging`, temporary files, and objects of interrupted publications and deletions.
  /// Call before workers run.
  arrow::Status collect_leftovers();
  /// Where the checkpoint with that folder's name is when it is published.
  storage::Location path_of(const std::string& name) const;

 private:
  arrow::Result<std::vector<Published>> list_objects(std::vector<std::string>* replaced = nullptr) const;

  std::string run_folder_;
  std::shared_ptr<storage::Storage> objects_;  // null for a local run folder
  std::string folder_ending_;
  bool expects_sent_stages_ = false;
  std::string driver_;
  std::function<arrow::Status()> gate_ = [] { return arrow::Status::OK(); };
};

/// Whether a report may call its checkpoint's folder so: a file name that nothing else in the run's folder has. Invalid
/// says why not.
arrow::Status check_folder_name(const std::string& name);

/// find_manifest() in a local folder.
arrow::Result<FoundManifest> find_manifest_in(const std::string& folder);
/// Reads the manifest of a checkpoint folder, local or a URI, as all that follow. IOError when there is none or it is
/// damaged.
arrow::Result<Manifest> read_manifest(const storage::Location& checkpoint_path);
/// Finds missing and truncated files by their sizes, without reading them. IOError names the first.
arrow::Status check_sizes(const storage::Location& checkpoint_path, const Manifest& manifest);
/// Compares every file with the manifest: presence, size, checksum. IOError names the first that differs. Files that
/// the manifest does not name, such as `.metadata.json`, are the user's affair. Cancelled soon after
/// `given_up` says so. is_damage() (damage.h) tells what differs from what cannot be read.
arrow::Status verify(const storage::Location& checkpoint_path, const std::stop_token& given_up = {});

}  // namespace paceline::checkpoint
