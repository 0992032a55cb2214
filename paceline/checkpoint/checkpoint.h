// Checkpoint: a reference to a folder of files, as users hand it to report() and get it back.
//
// A value type: copying copies the reference. Not thread-safe for changing metadata. Free of LibTorch; save() and
// load(), which take modules and optimizers, are defined in paceline/train/checkpoint_state.h.
#pragma once

#include <cstdint>
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
  /// it; the parallel strategy decides which rank writes what. To be reported, once, before the next save(), which
  /// deletes what was not. UsageError outside a train loop; StorageError for what cannot be written. Defined in
  /// paceline/train/checkpoint_state.h.
  template <class... Items>
  static Checkpoint save(const Items&... items);
  /// Restores items by their names (paceline/train/checkpoint_state.h): each kind in the order in which it was saved.
  /// Inside a train loop and outside. StorageError naming what is missing or damaged, ConfigError for what does not fit
  /// the item. Defined in paceline/train/checkpoint_state.h.
  template <class... Items>
  void load(Items&&... items) const;

  /// The folder with the files. Empty on a rank that save() let write nothing: the checkpoint is then complete on the
  /// ranks that did, and here once it is published (get_checkpoint()).
  const std::string& path() const { return path_; }
  /// Copies the files to `path` (made if need be; "" for a new temporary folder) and returns it. StorageError when they
  /// cannot be read or written; UsageError on a rank that save() let write nothing.
  std::string to_directory(const std::string& path = "") const;
  /// The files as a local folder for as long as the result lives: for local storage the checkpoint itself. Errors as
  /// to_directory().
  ///
  ///     const auto folder = checkpoint.as_directory();
  ///     std::ifstream file(*folder + "/vocabulary.txt");
  std::shared_ptr<const std::string> as_directory() const;

  /// The user's own notes on the checkpoint, in `.metadata.json`; an empty object when there are none. StorageError
  /// when the file is not JSON.
  Json get_metadata() const;
  /// Replaces the notes; they are the lowest rank's in the published checkpoint, so that on a rank that save() let
  /// write nothing this does nothing. ConfigError for what is no JSON object.
  void set_metadata(const Json& metadata);
  /// As set_metadata(), keeping the notes of other names.
  void update_metadata(const Json& metadata);

  bool operator==(const Checkpoint&) const = default;

 private:
  friend class CheckpointAccess;
  explicit Checkpoint(std::string path) : path_(std::move(path)) {}

  // Whether save() was called on this rank and let it write nothing.
  bool is_elsewhere() const { return save_ > 0 && path_.empty(); }
  void require_files(const char* function) const;

  std::string path_;
  // What save() staged in the run folder, relative to it; empty for the user's own folders and published checkpoints.
  std::string staged_;
  int64_t save_ = 0;  // the session's how many-th save() it is from; 0 for checkpoints that are not from save()
};

/// How the session makes and reads checkpoints that users cannot make: staged ones and published ones.
class CheckpointAccess {
 public:
  static Checkpoint published(std::string path) { return Checkpoint(std::move(path)); }
  static Checkpoint staged(std::string path, std::string staged, int64_t save) {
    Checkpoint checkpoint(std::move(path));
    checkpoint.staged_ = std::move(staged);
    checkpoint.save_ = save;
    return checkpoint;
  }
  static const std::string& staged_folder(const Checkpoint& checkpoint) { return checkpoint.staged_; }
  /// Which save() of the session it is from, from 1; 0 for none.
  static int64_t save_number(const Checkpoint& checkpoint) { return checkpoint.save_; }
};

}  // namespace paceline
