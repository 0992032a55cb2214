// Checkpoint: a reference to a folder of files, as users hand it to report() and get it back.
//
// A value type: copying copies the reference. Free of LibTorch; save() and load(), which take modules and optimizers,
// are defined in paceline/train/checkpoint_state.h.
#pragma once

#include <memory>
#include <string>

#include "paceline/core/json.h"

namespace paceline {

/// A folder of a checkpoint.
///
///     report({{"loss", loss}}, Checkpoint::from_directory("./my_files"));
///     if (auto checkpoint = get_checkpoint()) checkpoint->load(model, optimizer);
class Checkpoint {
 public:
  /// A checkpoint of the user's own files; the folder is copied when it is reported and stays untouched.
  /// StorageError when there is no such folder.
  static Checkpoint from_directory(const std::string& path);

  /// Saves what the items hold: modules, optimizers, loaders, schedulers, scalers, anything Stateful. Every rank calls
  /// it; the parallel strategy decides which rank writes what. Defined in paceline/train/checkpoint_state.h.
  template <class... Items>
  static Checkpoint save(const Items&... items);
  /// Restores items in the order in which they were saved. Defined in paceline/train/checkpoint_state.h.
  template <class... Items>
  void load(Items&&... items) const;

  /// The folder with the files.
  const std::string& path() const { return path_; }
  /// Copies the files to `path` (made if need be; "" for a new temporary folder) and returns it.
  std::string to_directory(const std::string& path = "") const;
  /// The files as a local folder for as long as the result lives: for local storage the checkpoint itself.
  std::shared_ptr<const std::string> as_directory() const;

  /// The user's own notes on the checkpoint, in `.metadata.json`; an empty object when there are none.
  Json get_metadata() const;
  void set_metadata(const Json& metadata);
  void update_metadata(const Json& metadata);

  bool operator==(const Checkpoint&) const = default;

 private:
  friend class CheckpointAccess;
  explicit Checkpoint(std::string path) : path_(std::move(path)) {}

  std::string path_;
  // What save() staged in the run folder, relative to it; empty for the user's own folders and published checkpoints.
  std::string staged_;
  bool collective_save_ = false;
};

/// How the session makes and reads checkpoints that users cannot make: staged ones and published ones.
class CheckpointAccess {
 public:
  static Checkpoint published(std::string path) { return Checkpoint(std::move(path)); }
  static Checkpoint staged(std::string path, std::string staged) {
    Checkpoint checkpoint(std::move(path));
    checkpoint.staged_ = std::move(staged);
    checkpoint.collective_save_ = true;
    return checkpoint;
  }
  static const std::string& staged_folder(const Checkpoint& checkpoint) { return checkpoint.staged_; }
  static bool is_collective_save(const Checkpoint& checkpoint) { return checkpoint.collective_save_; }
};

}  // namespace paceline
