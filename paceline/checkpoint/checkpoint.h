// Checkpoint: a reference to a folder of files, which users pass to report() and get back later.
//
// A value type: copying it copies the reference. Changing metadata is not thread-safe. Does not depend on LibTorch:
// save(), async_save() and load(), which take modules and optimizers, are defined in paceline/train/checkpoint_state.h.
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
  /// Whether a module must have exactly the parameters and buffers that were saved. If false, load() leaves alone those
  /// that only one of the two has, and names them in the result; the shapes of the others must still match. Other
  /// items, such as optimizers, must always match exactly.
  bool strict = true;
};

/// What Checkpoint::load() has left alone, as PyTorch's load_state_dict() returns it; for further modules with a
/// prefix: "model_2.weight".
struct LoadResult {
  /// The module's parameters and buffers that the checkpoint lacks.
  std::vector<std::string> missing_keys;
  /// The checkpoint's parameters and buffers that the module lacks.
  std::vector<std::string> unexpected_keys;
};

/// A reference to a checkpoint's folder.
///
///     report({{"loss", loss}}, Checkpoint::from_directory("./my_files"));
///     if (auto checkpoint = get_checkpoint()) checkpoint->load(model, optimizer);
class Checkpoint {
 public:
  /// Makes a checkpoint of the user's own files; report() copies the folder and does not change it. `path` is
  /// absolute, relative to the current directory, or "~/…"; or the URI of a folder in an object store, such as that of
  /// a published checkpoint. Throws StorageError if there is no such folder.
  static Checkpoint from_directory(const std::string& path);

  /// Saves the state of the items: modules, optimizers, loaders, schedulers, scalers, anything Stateful. Every rank
  /// calls it; the parallel strategy decides which rank writes what. Report the result once, before the next save(),
  /// which deletes it if it was not reported. An item may have a name of its own: `save(named("generator", g),
  /// named("critic", c))`. Throws UsageError outside a train loop, and StorageError if the files cannot be written.
  /// Defined in paceline/train/checkpoint_state.h.
  template <class... Items>
  static Checkpoint save(const Items&... items);
  /// As save(), but returns when the items are copied into memory: threads write the files while training continues. If
  /// you report it with CheckpointUploadMode::async, report() does not wait for them either. Everything that reads the
  /// checkpoint (path(), as_directory(), metadata, a report in another mode) waits until they are written, and throws
  /// the StorageError if they could not be. The memory of the copies, as large as the largest checkpoint so far, is
  /// kept for the next. While two uploads of this rank are in progress, this call waits for one of them, so there are
  /// never more than two copies.
  ///
  ///     report(metrics, Checkpoint::async_save(model, optimizer),
  ///            {.checkpoint_upload_mode = CheckpointUploadMode::async});
  template <class... Items>
  static Checkpoint async_save(const Items&... items);
  /// Restores items by their names (paceline/train/checkpoint_state.h), several of one kind in the order in which they
  /// were saved. LoadOptions may follow the items. Works inside and outside a train loop. Throws StorageError naming
  /// what is missing or damaged, and ConfigError for state that does not fit the item. Defined in
  /// paceline/train/checkpoint_state.h.
  ///
  ///     const auto result = checkpoint.load(model, {.strict = false});   // a new head keeps its own weights
  ///     for (const auto& name : result.missing_keys) std::cout << name << " is not in the checkpoint\n";
  template <class... Items>
  LoadResult load(Items&&... items) const;
  /// The same for one item, so that the options can be written in braces.
  template <class Item>
  LoadResult load(Item&& item, LoadOptions options) const {
    return load<Item&, LoadOptions&>(item, options);
  }
  /// The same for two items.
  template <class First, class Second>
  LoadResult load(First&& first, Second&& second, LoadOptions options) const {
    return load<First&, Second&, LoadOptions&>(first, second, options);
  }

  /// The folder with the files: a local path, or a URI in an object store. If the checkpoint was made with a URI that
  /// has keys, path() shows "…" in their place; the checkpoint keeps them and all its functions use them. Empty on a
  /// rank on which save() wrote nothing: there the checkpoint is complete once it is published (get_checkpoint()).
  const std::string& path() const;
  /// Copies the files to `path` (made if need be; "" for a new temporary folder) and returns it. Throws StorageError if
  /// they cannot be read or written, and UsageError on a rank on which save() wrote nothing.
  std::string to_directory(const std::string& path = "") const;
  /// The files as a local folder, for as long as the result lives. For local storage it is the checkpoint's own folder.
  /// From an object store the files are downloaded, once for all callers in this process at the same time. Throws as
  /// to_directory() does.
  ///
  ///     const auto folder = checkpoint.as_directory();
  ///     std::ifstream file(*folder + "/vocabulary.txt");
  std::shared_ptr<const std::string> as_directory() const;

  /// The user's notes on the checkpoint, in `.metadata.json`; an empty object if there are none. Throws StorageError if
  /// the file is not JSON.
  Json get_metadata() const;
  /// Replaces the notes. The published checkpoint has the notes of the lowest rank that has files, so on a rank on
  /// which save() wrote nothing this does nothing. Throws ConfigError if `metadata` is not a JSON object.
  void set_metadata(const Json& metadata);
  /// As set_metadata(), but keeps notes with other names.
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
