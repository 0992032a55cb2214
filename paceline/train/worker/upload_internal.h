// How the files of a reported checkpoint become a stage: copied, left where they are, or uploaded by the user's own
// function. Not for users.
#pragma once

#include <string>

#include "paceline/checkpoint/checkpoint.h"
#include "paceline/checkpoint/stage.h"
#include "paceline/core/ids.h"
#include "paceline/core/json.h"
#include "paceline/storage/local/durable.h"
#include "paceline/train/session.h"

namespace paceline::train {

/// Where a stage goes.
struct StagePlace {
  std::string run_folder;
  storage::FileId run_folder_id;  // of what was there when the train loop began
  Identity identity;
  std::string driver;  // stage.h
  int64_t number = 0;
  Json positions = Json::object();  // of the datasets, by name

  /// With the positions among its values. StorageError when another folder has the run's name by now, or none.
  checkpoint::Stage create() const;
  /// Its folder, absolute, before it exists.
  std::string folder() const;
};

struct UploadTask {
  StagePlace stage;
  Checkpoint checkpoint;
  CheckpointUploadMode mode = CheckpointUploadMode::sync;
  CheckpointUploadFn function;
  /// Name of the checkpoint's folder, given or by default.
  std::string folder_name;
  /// Whether the run is in an object store, where files cannot be put in place without the controller.
  bool to_object_store = false;
};

/// ConfigError for options that contradict each other, the checkpoint or the run's folder. Thrown at once, on the train
/// loop's thread.
void check_upload(const UploadTask& task, const ReportOptions& options);
/// Whether the local folder is to be deleted.
bool deletes_local(const Checkpoint& checkpoint, const ReportOptions& options, const std::string& run_folder);
/// Makes the stage, on any thread, and gives it as Report::staged wants it. Errors are exceptions.
std::string perform(const UploadTask& task);

}  // namespace paceline::train
