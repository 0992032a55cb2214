#include "paceline/views/checkpoint_list.h"

#include "paceline/checkpoint/damage.h"
#include "paceline/checkpoint/store.h"
#include "paceline/core/run_layout.h"
#include "paceline/storage/storage.h"

namespace paceline::views {
namespace {

arrow::Result<bool> has_files(const storage::Location& folder) {
  ARROW_ASSIGN_OR_RAISE(const auto storage, storage::open_storage(folder));
  ARROW_ASSIGN_OR_RAISE(const auto files, storage->list());
  return !files.empty();
}

}  // namespace

arrow::Result<std::vector<ListedCheckpoint>> list_checkpoints(const storage::Location& location) {
  ARROW_ASSIGN_OR_RAISE(const auto store, checkpoint::Store::at(location));
  ARROW_ASSIGN_OR_RAISE(const auto published, store.list());
  std::vector<ListedCheckpoint> checkpoints;
  for (const checkpoint::Published& one : published) {
    ARROW_ASSIGN_OR_RAISE(const auto manifest, checkpoint::read_manifest(one.path));
    ListedCheckpoint& listed = checkpoints.emplace_back();
    listed = {.name = one.name,
              .path = one.path.text(),
              .report = one.report,
              .attempt = manifest.attempt,
              .world_size = manifest.world_size,
              .time = one.time,
              .files = std::ssize(manifest.files),
              .tensors = std::ssize(manifest.tensors),
              .metrics = one.metrics};
    for (const auto& [name, file] : manifest.files) listed.bytes += file.size;
  }
  return checkpoints;
}

arrow::Result<VerifiedCheckpoint> verify_checkpoint(const storage::Location& location, const std::string& name,
                                                    const std::stop_token& given_up) {
  if (!run_layout::is_checkpoint_folder(name)) ARROW_RETURN_NOT_OK(checkpoint::check_folder_name(name));
  ARROW_ASSIGN_OR_RAISE(const auto store, checkpoint::Store::at(location));
  return verify_checkpoint(store.path_of(name), given_up);
}

arrow::Result<VerifiedCheckpoint> verify_checkpoint(const storage::Location& checkpoint,
                                                    const std::stop_token& given_up) {
  constexpr int kMostTurns = 5;  // of one that is replaced at each report
  for (int turn = 1;; ++turn) {
    VerifiedCheckpoint verified{.name = storage::last_part(checkpoint)};
    const auto manifest = checkpoint::read_manifest(checkpoint);
    if (manifest.ok()) {
      verified.files = std::ssize(manifest->files);
      verified.tensors = std::ssize(manifest->tensors);
      for (const auto& [file_name, file] : manifest->files) verified.bytes += file.size;
    }
    const arrow::Status found = manifest.ok() ? checkpoint::verify(checkpoint, given_up) : manifest.status();
    verified.is_whole = found.ok();
    if (verified.is_whole) return verified;
    if (found.IsCancelled()) return found;
    // It may have been deleted meanwhile, or replaced by another of its name.
    const auto now = checkpoint::read_manifest(checkpoint);
    const bool is_another = now.ok() && !(manifest.ok() && *now == *manifest);
    if (is_another && turn < kMostTurns) continue;
    const bool is_going = manifest.ok() && checkpoint::is_damage(now.status());
    if (!is_going && !checkpoint::is_damage(found)) return found;
    ARROW_ASSIGN_OR_RAISE(const bool is_there, is_going ? false : has_files(checkpoint));
    if (!is_there) return arrow::Status::KeyError("there is no checkpoint at ", checkpoint.text(), ", or no longer");
    verified.problem = found.message();
    return verified;
  }
}

}  // namespace paceline::views
