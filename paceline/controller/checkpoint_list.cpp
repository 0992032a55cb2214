#include "paceline/controller/checkpoint_list.h"

#include <algorithm>

#include "paceline/checkpoint/retention.h"
#include "paceline/checkpoint/store.h"
#include "paceline/storage/location.h"

namespace paceline::controller {

using namespace policy;

rpc::CheckpointEntries checkpoint_list(const RunState& state, const std::string& location) {
  std::vector<checkpoint::Scored> scored;
  for (const KeptCheckpoint& kept : state.checkpoints) scored.push_back({kept.report, kept.metrics});
  rpc::CheckpointEntries list;
  for (const int64_t report : checkpoint::rank_checkpoints(scored, state.options.checkpoint_config)) {
    const KeptCheckpoint& kept = *std::ranges::find(state.checkpoints, report, &KeptCheckpoint::report);
    list.push_back({.path = storage::join(location, checkpoint::folder_name(kept.name, kept.report)),
                    .metrics = kept.metrics,
                    .status = Json(kept.status).get<std::string>()});
  }
  std::ranges::reverse(list);
  return list;
}

}  // namespace paceline::controller
