// The status of a live run, as the command line shows it: JSON made from the run's state. Pure.
#pragma once

#include <map>
#include <vector>

#include "paceline/controller/run_request.h"
#include "paceline/policy/hang_detection.h"
#include "paceline/policy/state.h"
#include "paceline/rpc/messages.h"

namespace paceline::controller {

/// What the state does not hold because no decision depends on it.
struct LiveStatus {
  /// Rank 0's last metrics and the number of its report.
  Json metrics = Json::object();
  int64_t last_report = 0;
  /// What the agents read last.
  std::map<WorkerId, rpc::ProcessProgress> progress;
  /// Who has to catch up: disk, callbacks, trackers; a sentence each.
  std::vector<std::string> waits_for;
  /// Ranks that are slow now.
  std::vector<policy::Straggler> stragglers;
};

/// {"name", "path", "pid", "state", "since", "epoch", "attempt", "generation", "world_size", "failures": {"worker",
/// "start", "preemption"}, "workers": [{"worker", "rank", "local_rank", "node", "pid", "stage", "step", "phase",
/// "phase_s", "standing", "step_s", "spent", "slow", "started", "cpu_s", "resident_bytes"}], "metrics", "last_report",
/// "waits_for": […], "checkpoints": [{"report", "path", "metrics", "time"}]}
Json status_json(const policy::RunState& state, const LiveStatus& live, const RunRequest& request);

}  // namespace paceline::controller
