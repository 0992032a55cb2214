// ObjectRun: a run whose folder is in an object store.
//
// The driver works in a local folder in the user's state directory, with journal, history, logs, staging, lock and
// control socket as a local run has them. Checkpoints are published to the object store; a mirror copies journal,
// history, logs and what else is in that folder to `records/` there, at the latest 5 s after it was written, of
// workers' logs and artifacts 16 files each 5 s, samples of nodes each five minutes; a lease keeps other drivers away.
// Taking the run over on another machine makes the working folder from the records.
#pragma once

#include <arrow/result.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "paceline/storage/objects/file_mirror.h"
#include "paceline/storage/objects/lease.h"

namespace paceline::run {

class ObjectRun {
 public:
  using Tell = std::function<void(const std::string& text)>;

  /// Takes the run at `location` over. `folder` is its working folder, which the caller has locked and has no file open
  /// in: it is replaced where it is out of date, or a reader's copy. `note` says why it takes long; `on_lost` is called
  /// on another thread. AlreadyExists when another driver holds the run.
  static arrow::Result<std::unique_ptr<ObjectRun>> take(const storage::Location& location, const std::string& folder,
                                                        const Tell& note, Tell on_lost);

  /// Where checkpoints go; refuses changes without the lease.
  std::shared_ptr<storage::Storage> objects() const { return objects_; }
  /// Behind the names of folders that this driver publishes, "" for nothing: what a driver before it, which may still
  /// live, has sent already and arrives late, must not replace its files.
  std::string folder_ending() const;
  /// The journal has something that must not be lost: copies it now, in the background.
  void push();
  /// The run has ended: copies what is left. `storage_hangs`: a publication or deletion is left behind.
  arrow::Status finish(bool storage_hangs);

 private:
  ObjectRun() = default;
  std::unique_ptr<storage::Lease> lease_;
  std::shared_ptr<storage::Storage> objects_;
  std::unique_ptr<storage::FileMirror> mirror_;
};

/// Deletes all that is in the object store of the run at a URI; an interruption leaves a run that can be deleted again.
/// The caller has locked `folder`, its working folder. AlreadyExists when another driver holds the run; `note` says why
/// it takes long.
arrow::Status delete_object_run(const storage::Location& location, const std::string& folder,
                                const ObjectRun::Tell& note);

}  // namespace paceline::run
