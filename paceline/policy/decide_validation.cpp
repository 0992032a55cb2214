// Validations of checkpoints on the side: queued with a report, started when their checkpoint is published, as many at
// once as allowed, the oldest first. Whatever becomes of them, training goes on.

#include <algorithm>
#include <limits>

#include "paceline/core/metric_values.h"
#include "paceline/policy/decide_internal.h"
#include "paceline/policy/failure_text.h"
#include "paceline/policy/placement.h"

namespace paceline::policy {

Validation* Decision::find_validation(int64_t report) {
  const auto found = std::ranges::find(state_.validations, report, &Validation::report);
  return found == state_.validations.end() ? nullptr : &*found;
}

// Null too when the process is not the validation's any more.
Validation* Decision::find_validation(int64_t report, WorkerId worker) {
  Validation* validation = find_validation(report);
  return validation == nullptr || validation->worker != worker ? nullptr : validation;
}

void Decision::queue_validation(int64_t report, const ValidationTaskConfig& task) {
  if (state_.options.max_validations == 0) {
    return note(LogLevel::warning, "the checkpoint of report " + std::to_string(report) +
                                       " is not validated: the run has no validation function");
  }
  state_.validations.push_back({.report = report, .task = task});
}

// What an earlier controller knew of the checkpoints that are there. The validations that it did not see the end of
// begin anew.
void Decision::take_over_checkpoints(const RunState& earlier) {
  for (PublishedCheckpoint& kept : state_.checkpoints) {
    const auto known = std::ranges::find(earlier.checkpoints, kept.report, &PublishedCheckpoint::report);
    if (known != earlier.checkpoints.end()) {
      kept.metrics = known->metrics;
      kept.status = known->status;
    }
    const auto pending = std::ranges::find(earlier.validations, kept.report, &Validation::report);
    if (pending == earlier.validations.end()) continue;
    queue_validation(kept.report, pending->task);
    const bool queued = find_validation(kept.report) != nullptr;
    kept.status = queued ? CheckpointStatus::pending_validation : CheckpointStatus::committed;
  }
}

void Decision::start_validations() {
  const bool ending = state_.state == State::shutting_down && state_.final_state != FinalState::finished;
  if (ending || is_terminal(state_.state)) return;
  if (nodes_left() == 0) return;  // a journal may tell of reports before any node
  std::vector<int64_t> on_node(state_.nodes.size(), 0);
  for (size_t node = 0; node < on_node.size(); ++node) {
    if (state_.nodes[node].lost) on_node[node] = std::numeric_limits<int64_t>::max();
  }
  int64_t running = 0;
  for (const Validation& one : state_.validations) {
    if (one.worker.value == 0) continue;
    ++running;
    ++on_node[static_cast<size_t>(one.node)];
  }
  for (Validation& one : state_.validations) {
    if (running == state_.options.max_validations) return;
    if (one.worker.value != 0 || find_kept(one.report) == nullptr) continue;
    ++running;
    state_.last_worker = state_.last_worker.next();
    one.worker = state_.last_worker;
    one.node = std::ranges::min_element(on_node) - on_node.begin();
    ++on_node[static_cast<size_t>(one.node)];
    note(LogLevel::info, "validating the checkpoint of report " + std::to_string(one.report));
    act(StartValidation{one.report, one.worker, one.node, one.task});
  }
}

// A process that cannot be killed holds nobody up.
void Decision::on(const ValidationOverdue& event) {
  const Validation* validation = find_validation(event.report, event.worker);
  if (validation == nullptr) return;
  const bool late = event.error.empty();
  const std::string problem =
      late ? "has used up its " + seconds_text(validation->task.timeout_s.value_or(0)) : "failed: " + event.error;
  note(LogLevel::warning, "the validation of the checkpoint of report " + std::to_string(event.report) + " " + problem +
                              "; training is not affected");
  act(EndValidation{event.worker, late ? "its time is over" : event.error});
  settle_validation(event.report, late ? CheckpointStatus::validation_timeout : CheckpointStatus::validation_failed,
                    Json::object());
}

void Decision::on(const ValidationEnded& event) {
  if (find_validation(event.report, event.worker) == nullptr) return;
  const std::string checkpoint = "the checkpoint of report " + std::to_string(event.report);
  if (event.error.empty()) {
    note(LogLevel::info, checkpoint + " is validated: " + encode_json(event.metrics));
    return settle_validation(event.report, CheckpointStatus::validated, event.metrics);
  }
  note(LogLevel::warning, "the validation of " + checkpoint + " failed: " + event.error + "; training is not affected");
  settle_validation(event.report, CheckpointStatus::validation_failed, Json::object());
}

// One that takes its node along, by its memory perhaps, would take the next as well.
void Decision::give_up_validations() {
  const auto is_hopeless = [](const Validation& one) { return one.losses >= kFailuresToAvoid; };
  for (auto one = state_.validations.begin();
       (one = std::ranges::find_if(state_.validations, is_hopeless)) != state_.validations.end();) {
    note(LogLevel::warning, "the validation of the checkpoint of report " + std::to_string(one->report) +
                                " is given up: " + std::to_string(one->losses) + " nodes were lost while it ran there");
    settle_validation(one->report, CheckpointStatus::validation_failed, Json::object());
  }
}

void Decision::settle_validation(int64_t report, CheckpointStatus status, const Json& metrics) {
  std::erase_if(state_.validations, [report](const Validation& one) { return one.report == report; });
  if (PublishedCheckpoint* kept = find_kept(report)) {
    kept->status = status;
    if (!kept->metrics.is_object()) kept->metrics = Json::object();
    if (metrics.is_object()) update_metrics(kept->metrics, metrics);
  }
  apply_retention();
  start_validations();
  when_gone();
}

// A run that has finished waits for them; one that is stopped or has failed leaves them to the next fit().
bool Decision::waits_for_validations() const {
  return state_.state == State::shutting_down && state_.final_state == FinalState::finished &&
         !state_.validations.empty();
}

}  // namespace paceline::policy
