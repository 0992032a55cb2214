#include "paceline/policy/decide.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "paceline/policy/decide_internal.h"
#include "paceline/policy/failure_text.h"

namespace paceline::policy {

Actions decide(RunState& state, const Event& event, Time now) {
  Decision decision(state, now);
  std::visit([&decision](const auto& kind) { decision.on(kind); }, event);
  return std::move(decision).take();
}

std::optional<TimeLimit> time_limit(const RunState& state) {
  const std::optional<double> most = state.options.max_time;
  if (!most || state.state == State::shutting_down || is_terminal(state.state)) return std::nullopt;
  std::string reason = "RunConfig.max_time, " + seconds_text(*most) + ", has passed";
  if (state.used_s > 0)
    reason += " (" + seconds_text(std::round(state.used_s)) + " of it before the run was continued)";
  return TimeLimit{from_seconds(state.opened + std::max(0.0, *most - state.used_s)), reason};
}

void Decision::go(State state, const std::string& reason) {
  assert(is_legal(state_.state, state));
  act(EnterState{state_.state, state, reason, state_.attempt, state_.world_size});
  state_.state = state;
  state_.since = to_seconds(now_);
  ++state_.turn;  // a timer of the earlier state is stale now
}

void Decision::set_timer(double seconds) {
  const auto delay = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
  act(SetTimer{++state_.turn, now_ + delay});
}

void Decision::note(LogLevel level, std::string text) {
  act(Note{level, std::move(text)});
}

std::string Decision::named(Setting setting) const {
  const bool is_known = !state_.options.launch || has_flag(setting);
  return is_known ? " (" + setting_name(setting, state_.options.launch) + ")" : "";
}

Worker* Decision::find_live(WorkerId id) {
  const auto found = state_.workers.find(id);
  if (found == state_.workers.end() || found->second.stage == WorkerStage::gone) return nullptr;
  return &found->second;
}

void Decision::on(const RunOpened& event) {
  // What outlives a controller: the numbers that must never be used twice. Budgets start afresh.
  RunState fresh;
  fresh.turn = state_.turn;
  fresh.attempt = state_.attempt.next();
  fresh.last_worker = state_.last_worker;
  fresh.epoch = event.epoch;
  fresh.options = event.options;
  fresh.world_size = event.options.num_workers;
  fresh.last_report = std::max(state_.last_report, event.last_report);
  fresh.checkpoints = event.checkpoints;
  fresh.opened = to_seconds(now_);
  const bool begins = state_.epoch.value == 0 || (state_.state == State::finished && state_.stop_reason.empty());
  if (!begins) fresh.used_s = state_.used_s + std::max(0.0, event.last_seen - state_.opened);
  for (const PublishedCheckpoint& kept : event.checkpoints)
    fresh.last_report = std::max(fresh.last_report, kept.report);
  fresh.state = state_.state;
  const RunState earlier = std::exchange(state_, std::move(fresh));
  take_over_checkpoints(earlier);
  go(State::initializing, "run " + event.name + " is opened by process " + std::to_string(event.pid) + " on " +
                              event.host + ", epoch " + std::to_string(event.epoch.value));
  set_timer(state_.options.start_timeout_s);
}

void Decision::on(const StopRequested& event) {
  if (is_terminal(state_.state)) return;
  const std::string why = event.reason.empty() ? describe(event.cause) : event.reason;
  if (event.finish) return stop_as_finished(event.cause, why);
  ++state_.stop_requests;
  if (state_.stop_requests == 1) {
    state_.stop_cause = event.cause;
    state_.stop_reason = why;
  }
  if (state_.stop_requests >= 3) {
    note(LogLevel::warning, "killing the workers, which are being stopped already: " + why);
    if (state_.state != State::shutting_down) state_.final_state = FinalState::aborted;
    end_group(State::shutting_down, 0.0, why);
  } else if (state_.state != State::shutting_down) {
    note(LogLevel::warning, "stopping: " + why);
    shut_down(FinalState::aborted, state_.options.stop_grace_s, why);
  } else if (waits_for_validations()) {
    note(LogLevel::warning, "leaving the validations to the next fit(): " + why);
    state_.final_state = FinalState::aborted;
    when_gone();
  } else {
    note(LogLevel::warning, "stopping already; a third request, or a second SIGTERM, kills the workers");
  }
}

// Once: callbacks may ask at every report that is still on its way.
void Decision::stop_as_finished(StopCause cause, const std::string& reason) {
  if (state_.state == State::shutting_down) return;
  state_.stop_cause = cause;
  state_.stop_reason = reason;
  note(LogLevel::info, "stopping: " + reason);
  shut_down(FinalState::finished, state_.options.stop_grace_s, reason);
}

void Decision::on(const CallbackFailed& event) {
  end_with(FailureKind::callback, "callback " + event.callback + " failed: " + event.error, "a callback failed");
}

void Decision::on(const StorageFailed& event) {
  end_with(FailureKind::storage, "the run folder cannot be written: " + event.error,
           "the run folder cannot be written");
}

// Nothing to try again; an error that is there already stays the first.
void Decision::end_with(FailureKind kind, const std::string& text, const std::string& reason) {
  if (is_terminal(state_.state)) return;
  note(LogLevel::error, text);
  record({.kind = kind, .text = text, .time = to_seconds(now_)});
  if (state_.state != State::shutting_down || state_.final_state == FinalState::finished) {
    shut_down(FinalState::errored, state_.options.failure_grace_s, reason);
  }
}

void Decision::on(const TimerDue& event) {
  if (event.turn != state_.turn) return;
  state_.last_report = std::max(state_.last_report, event.last_report);
  switch (state_.state) {
    case State::initializing:
      return on_nodes_timeout();
    case State::scheduling:
      return on_start_timeout();
    case State::running:
      return apply_policy(Budget::worker);
    case State::preempting:
      note(LogLevel::warning, "the deadline of the preemption has passed");
      record({.kind = FailureKind::preemption,
              .text = "nodes were taken away: the deadline of the preemption has passed",
              .time = to_seconds(now_)});
      return apply_policy(Budget::preemption);
    default:
      if (state_.live > 0) return give_up_waiting();
      if (state_.backing_off) next_try();
  }
}

void Decision::on(const PreemptionNoticed& event) {
  if (is_terminal(state_.state)) return;
  for (const std::string& node : event.nodes) {
    const bool is_known = state_.leaving.contains(node);
    state_.leaving[node] = to_seconds(now_) + event.deadline_s;
    if (!is_known) {
      note(LogLevel::warning, "node " + node + " will be taken away in " + seconds_text(event.deadline_s));
    }
  }
  heed_notices();
}

void Decision::on(const ResizeWanted& event) {
  if (state_.state != State::running || event.num_workers < 1 || event.num_workers == state_.world_size) return;
  note(LogLevel::info, "resizing from " + std::to_string(state_.world_size) + " to " +
                           std::to_string(event.num_workers) + " workers: " + event.reason);
  state_.world_size = event.num_workers;
  end_group(State::resizing, state_.options.stop_grace_s, "the worker group is resized");
}

}  // namespace paceline::policy
