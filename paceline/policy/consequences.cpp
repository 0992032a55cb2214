#include "paceline/policy/consequences.h"

#include <algorithm>

namespace paceline::policy {
namespace {

// Fills in what readers show; one overload for each kind of action and event that they see anything of.
class Summary {
 public:
  Summary(const RunState& state, Consequences& consequences) : state_(state), told_(consequences) {}

  void take(const EnterState& action) {
    told_.entered.push_back({action.to, action.reason, action.attempt.value, action.world_size});
    const bool fails = action.to == State::restarting || action.to == State::rescheduling ||
                       action.to == State::errored ||
                       (action.to == State::shutting_down && state_.final_state == FinalState::errored);
    if (fails) told_.failures[action.attempt.value] = action.reason;
  }
  void take(const CloseGroup& action) {
    told_.closed = action.attempt.value;
    if (!action.failure.empty()) told_.failures[action.attempt.value] = action.failure;
  }
  void take(const StartWorker& action) {
    told_.started[state_.nodes[static_cast<size_t>(action.node)].name].push_back(action.worker);
  }
  void take(const AssignWorkers&) {
    for (const auto& [id, worker] : state_.workers) told_.ranks.push_back(id);
  }
  void take(const DeleteCheckpoint& action) { told_.deleted.push_back(action.report); }
  void take(const TellCallbacks&) { told_.worker_errors = state_.worker_errors; }
  void take(const Finish&) {
    told_.error = state_.error;
    told_.failure_kind = state_.failure_kind;
  }

  void take(const RunOpened&) { told_.checkpoints = state_.checkpoints; }
  void take(const NodeLost&) { tell_gone_workers(); }
  void take(const TimerDue&) { tell_gone_workers(); }
  void take(const WorkerStarted& event) { tell_worker(event.worker); }
  void take(const StartFailed& event) { tell_worker(event.worker); }
  void take(const WorkerJoined& event) { tell_worker(event.worker); }
  void take(const WorkerFailed& event) { tell_worker(event.worker); }
  void take(const WorkerExited& event) { tell_worker(event.worker); }
  void take(const WorkerSilent& event) { tell_worker(event.worker); }
  void take(const WorkerFinished& event) {
    tell_worker(event.worker);
    const auto worker = state_.workers.find(event.worker);
    if (worker != state_.workers.end() && worker->second.rank == 0) told_.return_value = state_.return_value;
  }
  void take(const CheckpointPublished& event) { tell_checkpoint(event.checkpoint.report); }
  void take(const ValidationOverdue& event) { tell_checkpoint(event.report); }
  void take(const ValidationEnded& event) { tell_checkpoint(event.report); }
  void take(const StopRequested&) {
    told_.stop_cause = state_.stop_cause;
    told_.stop_reason = state_.stop_reason;
  }

  template <class Other>
  void take(const Other&) {}

 private:
  void tell_worker(WorkerId id) {
    const auto worker = state_.workers.find(id);
    if (worker != state_.workers.end()) told_.workers.push_back({id, shown_stage(worker->second), worker->second.pid});
  }
  void tell_gone_workers() {
    for (const auto& [id, worker] : state_.workers) {
      if (worker.stage == WorkerStage::gone) told_.workers.push_back({id, shown_stage(worker), worker.pid});
    }
  }
  void tell_checkpoint(int64_t report) {
    const auto kept = std::ranges::find(state_.checkpoints, report, &PublishedCheckpoint::report);
    if (kept != state_.checkpoints.end()) told_.checkpoints.push_back(*kept);
  }

  const RunState& state_;
  Consequences& told_;
};

}  // namespace

Consequences consequences_of(const Event& event, const RunState& state, const Actions& actions) {
  Consequences consequences;
  Summary summary(state, consequences);
  for (const Action& action : actions) {
    std::visit([&summary](const auto& kind) { summary.take(kind); }, action);
  }
  std::visit([&summary](const auto& kind) { summary.take(kind); }, event);
  return consequences;
}

Json encode_consequences(const Consequences& consequences) {
  static const Json kNothing = Consequences{};
  Json json = consequences;
  for (const auto& [name, nothing] : kNothing.items()) {
    if (json.at(name) == nothing) json.erase(name);
  }
  return json;
}

arrow::Result<Consequences> decode_consequences(const Json& json) {
  try {
    return json.get<Consequences>();
  } catch (const Json::exception& error) {
    return arrow::Status::Invalid("what followed from the event does not fit its declaration: ", error.what());
  }
}

}  // namespace paceline::policy
