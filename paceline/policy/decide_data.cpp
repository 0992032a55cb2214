// The data processes, one a node: started with the first group, kept over attempts, replaced when they end. Ranks wait
// meanwhile, so that an end costs no attempt, unless one process after the other ends.

#include <algorithm>

#include "paceline/policy/decide_internal.h"

namespace paceline::policy {
namespace {

// In an attempt. What ends that often ends for a reason that the next one has as well: a file, a function.
constexpr int64_t kMostEnds = 3;

}  // namespace

void Decision::start_data_processes(const std::vector<int64_t>& workers_on_node) {
  if (!state_.options.has_datasets) return;
  state_.data_processes.resize(state_.nodes.size());
  for (size_t node = 0; node < state_.data_processes.size(); ++node) {
    state_.data_processes[node].ends = 0;
    if (state_.data_processes[node].worker.value == 0 && workers_on_node[node] > 0)
      start_data_process(static_cast<int64_t>(node));
  }
}

void Decision::start_data_process(int64_t node) {
  state_.last_worker = state_.last_worker.next();
  state_.data_processes[static_cast<size_t>(node)].worker = state_.last_worker;
  act(StartDataProcess{state_.last_worker, node});
}

void Decision::on(const DataProcessEnded& event) {
  const auto process = std::ranges::find(state_.data_processes, event.worker, &DataProcess::worker);
  if (event.worker.value == 0 || process == state_.data_processes.end()) return;
  process->worker = {};
  const int64_t node = process - state_.data_processes.begin();
  const bool has_ranks =
      state_.state == State::scheduling || state_.state == State::running || state_.state == State::preempting;
  if (!has_ranks) return;  // the next group starts one
  if (++process->ends <= kMostEnds) {
    note(LogLevel::warning, "the data process of node " + state_.nodes[static_cast<size_t>(node)].name + " " +
                                event.error + "; another one goes on where it was");
    return start_data_process(node);
  }
  on_failure({.kind = FailureKind::data,
              .node = state_.nodes[static_cast<size_t>(node)].name,
              .text = "the data process of the node has ended " + std::to_string(process->ends) +
                      " times in this attempt; the last one " + event.error,
              .time = to_seconds(now_)});
}

}  // namespace paceline::policy
