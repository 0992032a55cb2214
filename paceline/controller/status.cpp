#include "paceline/controller/status.h"

#include <unistd.h>

#include <algorithm>

#include "paceline/checkpoint/store.h"

namespace paceline::controller {

using namespace policy;
namespace {

Json worker_json(const RunState& state, const LiveStatus& live, const Worker& worker) {
  Json json = {
      {"worker", worker.id}, {"local_rank", worker.local_rank}, {"pid", worker.pid}, {"stage", shown_stage(worker)}};
  json["node"] = state.nodes[static_cast<size_t>(worker.node)].name;
  json["rank"] = worker.rank >= 0 ? Json(worker.rank) : Json(nullptr);
  const auto progress = live.progress.find(worker.id);
  if (progress != live.progress.end()) {
    json["step"] = progress->second.step;
    json["phase"] = progress->second.phase;
    json["started"] = progress->second.started;
    json["cpu_s"] = progress->second.cpu_s;
    json["resident_bytes"] = progress->second.resident_bytes;
    json["phase_s"] = progress->second.phase_s;
    json["standing"] = standing_of(progress->second);
    json["step_s"] = progress->second.step_s;
    json["spent"] = progress->second.spent;
    const auto slow = std::ranges::find(live.stragglers, worker.rank, &Straggler::rank);
    if (slow != live.stragglers.end()) json["slow"] = slow->step_s / slow->median_s;
  }
  return json;
}

}  // namespace

Json status_json(const RunState& state, const LiveStatus& live, const RunRequest& request) {
  Json workers = Json::array();
  for (const auto& [id, worker] : state.workers) workers.push_back(worker_json(state, live, worker));
  Json checkpoints = Json::array();
  for (const PublishedCheckpoint& kept : state.checkpoints) {
    Json checkpoint = kept;
    checkpoint["path"] = checkpoint_location(request, checkpoint::folder_name(kept.name, kept.report));
    checkpoints.push_back(std::move(checkpoint));
  }
  return {
      {"name", request.run_config.name.value_or("")},
      {"path", request.location},
      {"pid", ::getpid()},
      {"state", state.state},
      {"since", state.since},
      {"epoch", state.epoch},
      {"attempt", state.attempt},
      {"generation", state.generation},
      {"world_size", state.world_size},
      {"failures",
       {{"worker", state.worker_failures}, {"start", state.start_failures}, {"preemption", state.preemption_failures}}},
      {"workers", std::move(workers)},
      {"metrics", live.metrics},
      {"last_report", live.last_report},
      {"waits_for", live.waits_for},
      {"checkpoints", std::move(checkpoints)}};
}

}  // namespace paceline::controller
