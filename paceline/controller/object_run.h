// ObjectRun: a run whose folder is in an object store.
//
// The driver works in a local folder in the user's state directory, with journal, history, logs, staging, lock and
// control socket as a local run has them. Checkpoints are published to the object store; a mirror copies journal,
// history, logs and what else is in that folder to `records/` there, at the latest 5 s after it was written; a lease
// keeps other drivers away. Taking the run over on another machine makes the working folder from the records.
#pragma once

#include <arrow/result.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "paceline/storage/file_mirror.h"
#include "paceline/storage/lease.h"

namespace paceline::controller {

class ObjectRun {
 public:
  using Tell = std::function<void(const std::string& text)>;

  /// Takes the run at `location` over. `folder` is its working folder, which the caller has locked and has no file open
  /// in: it is replaced where it is out of date, or a reader's copy. `note` says why it takes long; `on_lost` is called
  /// on another thread. AlreadyExists when another driver holds the run.
  static arrow::Result<std::unique_ptr<ObjectRun>> take(const std::string& location, const std::string& folder,
                                                        const Tell& note, Tell on_lost);

  /// Where checkpoints go; refuses changes without the lease.
  std::shared_ptr<storage::Storage> objects() const { return objects_; }
  /// The journal has something that must not be lost: copies it now, in the background.
  void push();
  /// The run has ended: copies what is left.
  arrow::Status finish();

 private:
  ObjectRun() = default;
  std::unique_ptr<storage::Lease> lease_;
  std::shared_ptr<storage::Storage> objects_;
  std::unique_ptr<storage::FileMirror> mirror_;
};

/// Makes the working folder of a run at a URI, $STATE/working/NAME_HASH, and notes there where the run is.
arrow::Result<std::string> make_working_folder(const std::string& location);
/// Where the run is whose folder on this machine this is: the URI, without keys, of a working folder; else the folder.
std::string run_location(const std::string& folder);

/// The folder on this machine that shows the run at a URI to readers: the working folder that a driver here has, or had
/// last; else a copy of the run's records there, brought up to date. Holds no lease. IOError when no run is there.
arrow::Result<std::string> readable_folder(const std::string& location);
/// Whether the folder is such a copy, which may be out of date.
bool is_reader_copy(const std::string& folder);

/// Deletes all that is in the object store of the run at a URI; an interruption leaves a run that can be deleted again.
/// The caller has locked `folder`, its working folder. AlreadyExists when another driver holds the run; `note` says why
/// it takes long.
arrow::Status delete_object_run(const std::string& location, const std::string& folder, const ObjectRun::Tell& note);

/// Journal and history of a run at a location, as a folder: the run's own where it is local, else a temporary copy that
/// goes with the object. Readers hold no lease.
class RunRecords {
 public:
  static arrow::Result<RunRecords> open(const std::string& location);
  const std::string& folder() const { return *folder_; }

 private:
  explicit RunRecords(std::shared_ptr<const std::string> folder) : folder_(std::move(folder)) {}
  std::shared_ptr<const std::string> folder_;
};

}  // namespace paceline::controller
