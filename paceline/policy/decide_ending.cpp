// How a group ends, and what follows: the next attempt, or the end of the run.

#include <algorithm>

#include "paceline/policy/decide_internal.h"
#include "paceline/policy/failure_text.h"

namespace paceline::policy {

void Decision::shut_down(FinalState final_state, double grace_s, const std::string& reason) {
  if (state_.state != State::shutting_down) {
    state_.final_state = final_state;
  } else if (state_.final_state == FinalState::finished) {
    state_.final_state = final_state;  // what goes wrong at the end of a good run is still an error
  }
  end_group(State::shutting_down, grace_s, reason);
}

// Ends every worker that is left and goes to `next`; when_gone() goes on from there.
void Decision::end_group(State next, double grace_s, const std::string& reason) {
  if (state_.state != next) go(next, reason);
  state_.backing_off = state_.judgement_pending = state_.awaits_checkpoint = false;
  state_.awaited_report = 0;
  double longest_s = grace_s;
  for (const auto& [id, worker] : state_.workers) {
    if (worker.stage == WorkerStage::gone) continue;
    const double its_grace_s = is_witness(worker) ? std::max(grace_s, kWitnessSeconds) : grace_s;
    longest_s = std::max(longest_s, its_grace_s);
    end_worker(worker, its_grace_s, reason);
  }
  // Processes of a node that is silent have ended when it is lost, and not before.
  const double silence_s = state_.options.nodes_may_come ? state_.options.node_timeout_s : 0;
  if (state_.live > 0) set_timer(longest_s + silence_s + kEndPatienceSeconds);
  when_gone();
}

void Decision::end_worker(const Worker& worker, double grace_s, const std::string& reason) {
  act(EndWorker{worker.id, grace_s, reason});
}

void Decision::mark_gone(Worker& worker) {
  worker.stage = WorkerStage::gone;
  --state_.live;
}

// A process that survives SIGKILL hangs in the kernel: waiting longer would hang the run with it.
void Decision::give_up_waiting() {
  for (auto& [id, worker] : state_.workers) {
    if (worker.stage == WorkerStage::gone) continue;
    note(LogLevel::error, "process " + std::to_string(worker.pid) + " (worker " + std::to_string(id.value) +
                              ") did not end although it was killed; going on without it");
    mark_gone(worker);
  }
  when_gone();
}

// All have finished, and what they handed over is published.
void Decision::finish_if_complete() {
  if (state_.state != State::running && state_.state != State::preempting) return;
  if (state_.completed < state_.world_size || !state_.publishing.empty()) return;
  const std::string validations = std::to_string(state_.validations.size());
  note(LogLevel::info,
       "all workers have finished" + (validations == "0" ? "" : "; checkpoints still to be validated: " + validations));
  shut_down(FinalState::finished, state_.options.stop_grace_s, "the run has finished");
}

// Goes on when the group is gone and every publication has ended.
void Decision::when_gone() {
  const State state = state_.state;
  const bool ending = state == State::rescheduling || state == State::restarting || state == State::resizing ||
                      state == State::shutting_down;
  if (!ending || state_.live > 0 || state_.backing_off) return;
  if (!state_.publishing.empty() && state_.stop_requests < 3) return;
  if (waits_for_validations()) return;
  if (state == State::shutting_down) return finish();
  close_group();
  const double delay = state == State::resizing ? 0.0 : back_off_seconds(state_.failures_in_a_row);
  if (delay == 0) return next_try();
  state_.backing_off = true;
  note(LogLevel::info, "waiting " + seconds_text(delay) + " before the next try");
  set_timer(delay);
}

void Decision::next_try() {
  state_.backing_off = false;
  begin_group();
}

// Once for each group, when everything that can be known about its end is known.
void Decision::close_group() {
  if (state_.closed) return;
  state_.closed = true;
  const std::string failure = state_.failures.empty() ? "" : cause_line(state_.failures, state_.world_size);
  act(CloseGroup{state_.attempt, state_.generation, failure});
  if (state_.failures.empty() || state_.final_state == FinalState::aborted) return;
  state_.worker_errors = errors_by_rank(state_.failures, state_.world_size);
  act(TellCallbacks{state_.attempt, state_.worker_errors});
}

void Decision::finish() {
  close_group();
  if (state_.final_state == FinalState::errored) {
    state_.error = error_text(state_.failures, state_.world_size);
    state_.failure_kind = cause_kind(state_.failures);
  }
  if (state_.final_state == FinalState::aborted) {
    state_.error = "The run was stopped: " + state_.stop_reason + ". " +
                   (state_.options.launch ? "`paceline run` with the same --name" : "fit() with the same name") +
                   " continues it" +
                   (state_.checkpoints.empty()
                        ? "; no checkpoint has been published yet."
                        : " from the checkpoint of report " + std::to_string(state_.checkpoints.back().report) + ".");
  }
  std::string reason = state_.stop_reason.empty() ? "all workers have finished" : state_.stop_reason;
  if (state_.final_state == FinalState::errored) reason = cause_line(state_.failures, state_.world_size);
  go(state_of(state_.final_state), reason);
  if (!state_.error.empty()) note(LogLevel::debug, state_.error);  // the user is shown it by fit()
  note(state_.state == State::errored ? LogLevel::error : LogLevel::info, "the run has " + to_string(state_.state));
  act(Finish{});
}

}  // namespace paceline::policy
