// Checkpoint: a reference to a folder of files, as users hand it to report() and get it back.
//
// A value type: copying copies the reference. Not thread-safe for changing metadata. Free of LibTorch; save(),
// async_save() and load(), which take modules and optimizers, are defined in paceline/train/checkpoint_state.h.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "paceline/core/json.h"
#include "paceline/storage/location.h"

namespace paceline {

/// How Checkpoint::load() restores.
struct LoadOptions {
  /// Whether a module must have exactly the parameters and buffers that were saved. Without it those that only one of
  /// them has are left alone, and named in the result; shapes must fit all the same. Other items, optimizers among
  /// them, must always be as they were saved.
  bool strict = true;
};

/// What Checkpoint::load() has left alone, as of PyTorch's load_state_dict(); of further modules "model_2.weight".
struct LoadResult {
  /// Parameters and buffers that are not in the checkpoint.
  std::vector<std::string> missing_keys;
  /// What the checkpoint has beyond the module.
  std::vector<std::string> unexpected_keys;
};

/// A folder of a checkpoint.
///
///     report({{"loss", loss}}, Checkpoint::from_directory("./my_files"));
///     if (auto checkpoint = get_checkpoint()) checkpoint->load(model, optimizer);
class Checkpoint {
 public:
  /// A checkpoint of the user's own files; the folder is copied when it is reported and stays untouched. Also a URI of
  /// a folder in an object store, such as a published checkpoint's. StorageError when there is no such folder.
  static Checkpoint from_directory(const std::string& path);

  /// Saves what the items hold: modules, optimizers, loaders, schedulers, scalers, anything Stateful. Every rank calls
  /// it; the parallel strategy decides which rank writes what. To be reported, once, before the next save(), which
  /// deletes what was not. An item may have a name of its own: `save(named("generator", g), named("critic", c))`.
  /// UsageError outside a train loop; StorageError for what cannot be written. Defined in
  /// paceline/train/checkpoint_state.h.
  template <class... Items>
  static Checkpoint save(const Items&... items);
  /// As save(), but returns when the items are copied into memory: the files are written while training goes on. Report
  /// it with CheckpointUploadMode::async, and report() does not wait for them either; what reads the checkpoint
  /// (path(), as_directory(), metadata, a report in another mode) waits until they are written, and throws the
  /// StorageError if they cannot be. The copies' memory, as large as the largest checkpoint so far, is kept for the
  /// next; while two uploads of this rank are under way, this call waits for one of them, so there are never more than
  /// two copies.
  ///
  ///     report(metrics, Checkpoint::async_save(model, optimizer),
  ///            {.checkpoint_upload_mode = CheckpointUploadMode::async});
  template <class... Items>
  static Checkpoint async_save(const Items&... items);
  /// Restores items by their names (paceline/train/checkpoint_state.h): each kind in the order in which it was saved.
  /// LoadOptions may stand behind the items. Inside a train loop and outside. StorageError naming what is missing or
  /// damaged, ConfigError for what does not fit the item. Defined in paceline/train/checkpoint_state.h.
  ///
  ///     const auto result = checkpoint.load(model, {.strict = false});   // a new head keeps its own weights
  ///     for (const auto& name : result.missing_keys) std::cout << name << " is not in the checkpoint\n";
  template <class... Items>
  LoadResult load(Items&&... items) const;
  /// The same, so that the options can be written in braces: behind one item.
  template <class Item>
  LoadResult load(Item&& item, LoadOptions options) const {
    return load<Item&, LoadOptions&>(item, options);
  }
  /// And behind two.
  template <class First, class Second>
  LoadResult load(First&& first, Second&& second, LoadOptions options) const {
    return load<First&, Second&, LoadOptions&>(first, second, options);
  }

  /// The folder with the files: local, or the URI of one in an object store, which has "…" in the place of keys that it
  /// was made with: the checkpoint has them, and all its functions use them. Empty on a rank that save() let write
  /// nothing: the checkpoint is then complete on the ranks that did, and here once it is published (get_checkpoint()).
  const std::string& path() const;
  /// Copies the files to `path` (made if need be; "" for a new temporary folder) and returns it. StorageError when they
  /// cannot be read or written; UsageError on a rank that save() let write nothing.
  std::string to_directory(const std::string& path = "") const;
  /// The files as a local folder for as long as the result lives: for local storage the checkpoint itself; from an
  /// object store they are downloaded, once for all who ask in this process at the same time. Errors as to_directory().
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

  bool operator==(const Checkpoint& other) const { return location_ == other.location_ && save_ == other.save_; }

 private:
  friend class CheckpointAccess;
  explicit Checkpoint(storage::Location location) : location_(std::move(location)) {}

  // Whether save() was called on this rank and let it write nothing.
  bool is_elsewhere() const { return save_ > 0 && location_.empty(); }
  void require_files(const char* function) const;

  storage::Location location_;
  // What save() stages in the run folder, relative to it; not valid for the user's own folders and published
  // checkpoints.
  std::shared_future<std::string> staged_;
  int64_t save_ = 0;  // which save() of the session made it, from 1; 0 for other checkpoints
};

/// How the session makes and reads checkpoints that users cannot make: staged ones and published ones.
class CheckpointAccess {
 public:
  static Checkpoint published(storage::Location location) { return Checkpoint(std::move(location)); }
  /// `staged` is ready when the files are written.
  static Checkpoint staged(std::string path, std::shared_future<std::string> staged, int64_t save) {
    Checkpoint checkpoint(std::move(path));
    checkpoint.staged_ = std::move(staged);
    checkpoint.save_ = save;
    return checkpoint;
  }
  /// path(), with its keys.
  static const storage::Location& location(const Checkpoint& checkpoint) {
    (void)checkpoint.path();
    return checkpoint.location_;
  }
  /// Not valid unless save() has made the checkpoint.
  static const std::shared_future<std::string>& staged(const Checkpoint& checkpoint) { return checkpoint.staged_; }
  /// Whether save() let this rank write nothing.
  static bool is_elsewhere(const Checkpoint& checkpoint) { return checkpoint.is_elsewhere(); }
  /// Which save() of the session it is from, from 1; 0 for none.
  static int64_t save_number(const Checkpoint& checkpoint) { return checkpoint.save_; }
};

}  // namespace paceline
