#include "paceline/views/checkpoint_list.h"

#include "paceline/checkpoint/store.h"

namespace paceline::views {

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

}  // namespace paceline::views
