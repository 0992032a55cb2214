#include <algorithm>
#include <filesystem>

#include "paceline/checkpoint/store.h"
#include "paceline/core/error.h"
#include "paceline/storage/local/durable.h"
#include "paceline/train/data/dataset_shards.h"
#include "paceline/train/worker/upload_internal.h"

namespace paceline::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNoUpload = "the checkpoint that was reported with no_upload";

// With links resolved, as far as the path exists.
fs::path resolved(const std::string& path) {
  std::error_code error;
  const fs::path canonical = fs::weakly_canonical(path, error);
  const fs::path clean = error ? fs::path(path).lexically_normal() : canonical;
  return clean.has_filename() ? clean : clean.parent_path();
}

bool holds(const fs::path& outer, const fs::path& inner) {
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

// Whether a checkpoint of the user's own, not from save(), is concerned.
bool is_users(const Checkpoint& checkpoint) {
  return CheckpointAccess::save_number(checkpoint) == 0;
}

// Name of the folder right below the run's. `whose` begins the sentence.
std::string name_in_run(const std::string& path, const UploadTask& task, const std::string& whose) {
  const fs::path run = resolved(task.stage.run_folder);
  const fs::path folder = resolved(path);
  if (folder.parent_path() != run) {
    throw ConfigError(whose + " is " + path + ", which is not a folder right below the run's folder " +
                      task.stage.run_folder +
                      " (get_context().get_storage()). Put the files there; or keep them where they are and report a "
                      "small checkpoint with a file that says where");
  }
  const std::string name = folder.filename().string();
  if (const auto status = checkpoint::check_folder_name(name); !status.ok() && name != task.folder_name) {
    throw ConfigError(whose + " is called \"" + name + "\"; " + status.message());
  }
  if (!fs::is_directory(folder)) throw StorageError(whose + " is " + path + ", but there is no such folder");
  return name;
}

// What save() staged becomes superfluous when a function has brought it elsewhere.
void place_by_function(const UploadTask& task, checkpoint::Stage& stage) {
  const auto& staged = CheckpointAccess::staged(task.checkpoint);
  const Checkpoint placed = task.function(Checkpoint::from_directory(task.checkpoint.path()), task.folder_name);
  throw_if_error(
      stage.adopt_folder(name_in_run(placed.path(), task, "the checkpoint that checkpoint_upload_fn returned")));
  if (is_users(task.checkpoint)) return;
  throw_if_error(stage.take_over_from(staged.get()));
  throw_if_error(checkpoint::Stage::discard(task.stage.run_folder, staged.get()));
}

}  // namespace

checkpoint::Stage StagePlace::create() const {
  // Made anew it would have no journal, and what has its name by now is another run's.
  if (const auto now = storage::file_id(run_folder); !now.ok() || *now != run_folder_id) {
    throw StorageError("the run folder " + run_folder +
                       " is gone: it was deleted or moved, or its disk was unmounted, while the run trains");
  }
  checkpoint::Stage stage = value_or_throw(checkpoint::Stage::create(run_folder, identity, number, driver));
  if (!positions.empty()) stage.add_value(kPositions, positions);
  return stage;
}

std::string StagePlace::folder() const {
  return run_folder + "/" + checkpoint::stage_of(identity, number, driver);
}

void check_upload(const UploadTask& task, const ReportOptions& options) {
  const Checkpoint& checkpoint = task.checkpoint;
  const auto refuse = [](const std::string& field, const std::string& why) {
    throw ConfigError("report()'s " + field + why);
  };
  const bool no_upload = options.checkpoint_upload_mode == CheckpointUploadMode::no_upload;
  if (no_upload && options.checkpoint_upload_fn) {
    refuse("checkpoint_upload_fn", " is given, but with no_upload there is nothing for it to upload");
  }
  if (no_upload && !is_users(checkpoint)) {
    refuse("checkpoint_upload_mode",
           " is no_upload, but the checkpoint is from Checkpoint::save(), whose files are moved into their place; use "
           "sync or async");
  }
  if (task.to_object_store && (no_upload || options.checkpoint_upload_fn)) {
    refuse(no_upload ? "checkpoint_upload_mode" : "checkpoint_upload_fn",
           std::string(no_upload ? " is no_upload" : " is given") +
               ", but the run is in an object store, where only Paceline puts its files; use sync or async without a "
               "function");
  }
  const std::string field = "delete_local_checkpoint_after_upload";
  const bool deletes = options.delete_local_checkpoint_after_upload.value_or(false) && is_users(checkpoint);
  if (no_upload && deletes) refuse(field, " is true, but with no_upload the local folder is the checkpoint itself");
  if (no_upload) name_in_run(checkpoint.path(), task, kNoUpload);
  if (!deletes) return;
  if (CheckpointAccess::location(checkpoint).is_uri())
    refuse(field, " is true, but the checkpoint is in an object store");
  const std::string& run_folder = task.stage.run_folder;
  const fs::path local = resolved(checkpoint.path());
  const fs::path run = resolved(run_folder);
  if (holds(local, run)) {
    refuse(field, " is true, but the checkpoint's folder " + checkpoint.path() + " holds the run's folder " +
                      run_folder + ", which would be deleted with it");
  }
  if (holds(run, local)) {
    refuse(field, " is true, but the checkpoint's folder " + checkpoint.path() +
                      " is in the run's folder, where nothing but retention deletes");
  }
}

bool deletes_local(const Checkpoint& checkpoint, const ReportOptions& options, const std::string& run_folder) {
  if (!is_users(checkpoint)) return false;
  if (options.delete_local_checkpoint_after_upload) return *options.delete_local_checkpoint_after_upload;
  if (options.checkpoint_upload_mode != CheckpointUploadMode::async || CheckpointAccess::location(checkpoint).is_uri())
    return false;
  const fs::path local = resolved(checkpoint.path());
  const fs::path run = resolved(run_folder);
  return !holds(local, run) && !holds(run, local);
}

std::string perform(const UploadTask& task) {
  checkpoint::Stage stage = task.stage.create();
  if (task.function) {
    place_by_function(task, stage);
  } else if (task.mode == CheckpointUploadMode::no_upload) {
    throw_if_error(stage.adopt_folder(name_in_run(task.checkpoint.path(), task, kNoUpload)));
  } else {
    throw_if_error(stage.copy_folder(*task.checkpoint.as_directory()));
  }
  return value_or_throw(stage.finish());
}

}  // namespace paceline::train
