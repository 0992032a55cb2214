// What happens to workers that run: reports of their ends, and the policy of failures.

#include <algorithm>
#include <csignal>
#include <utility>

#include "paceline/core/progress.h"
#include "paceline/policy/decide_internal.h"
#include "paceline/policy/failure_text.h"

namespace paceline::policy {

Failure Decision::failure_of(const Worker& worker, FailureKind kind) const {
  return {.kind = kind,
          .worker = worker.id,
          .rank = worker.rank,
          .node = state_.nodes[static_cast<size_t>(worker.node)].name,
          .time = to_seconds(now_)};
}

// Keeps the failure for the error text; gives its position.
int64_t Decision::record(Failure failure) {
  const auto position = static_cast<int64_t>(state_.failures.size());
  const auto worker = state_.workers.find(failure.worker);
  if (worker != state_.workers.end()) worker->second.failure = position;
  state_.failures.push_back(std::move(failure));
  return position;
}

bool Decision::group_is_ending() const {
  return state_.state != State::scheduling && state_.state != State::running && state_.state != State::preempting;
}

void Decision::on(const WorkerFinished& event) {
  Worker* worker = find_live(event.worker);
  if (worker == nullptr || worker->stage != WorkerStage::training) return;
  worker->stage = WorkerStage::finished;
  worker->completed = true;
  ++state_.completed;
  if (worker->rank == 0) state_.return_value = event.return_value;
  finish_if_complete();
}

void Decision::on(const WorkerFailed& event) {
  Worker* worker = find_live(event.worker);
  if (worker == nullptr || worker->stage == WorkerStage::failed || worker->stage == WorkerStage::finished) return;
  tell_witness(*worker, event);
  if (event.stopped) {
    // It did what it was told: the exit that follows is no failure, whatever its code.
    if (group_is_ending()) worker->stage = WorkerStage::failed;
    return;
  }
  worker->stage = WorkerStage::failed;
  note_awaited(event.awaited_report, event.awaits_checkpoint);
  Failure failure = failure_of(*worker, FailureKind::exception);
  failure.exception = event.exception;
  failure.text = event.text;
  failure.frames = event.frames;
  failure.collateral = event.collateral;
  on_failure(std::move(failure));
}

// Whether it waits in a collective that hangs, and has not told yet where.
bool Decision::is_witness(const Worker& worker) const {
  return worker.stage == WorkerStage::training && std::ranges::any_of(state_.failures, [&](const Failure& failure) {
           return failure.kind == FailureKind::hang && failure.witness == worker.rank && worker.rank >= 0;
         });
}

// What ends a collective that hangs is an exception there, whose frames are the user's own lines.
void Decision::tell_witness(const Worker& worker, const WorkerFailed& event) {
  if (event.frames.empty() || !is_witness(worker)) return;
  for (Failure& failure : state_.failures) {
    if (failure.kind == FailureKind::hang) failure.frames = event.frames;
  }
}

void Decision::on(const WorkerSilent& event) {
  Worker* worker = find_live(event.worker);
  if (worker == nullptr || worker->stage == WorkerStage::failed) return;
  if (worker->stage == WorkerStage::finished) {
    note(LogLevel::warning, "worker " + std::to_string(worker->id.value) +
                                " gave no sign of life after its train loop had returned; killing it");
  } else {
    worker->stage = WorkerStage::failed;
    Failure failure = failure_of(*worker, FailureKind::silence);
    failure.text = "gave no sign of life for " + seconds_text(event.silent_s) +
                   (event.stopped ? ": the process is stopped by a signal (SIGSTOP)" : "") +
                   named(Setting::heartbeat_timeout);
    failure.end.step = event.step;
    failure.end.phase = event.phase;
    if (state_.state == State::scheduling) {
      on_start_problem(std::move(failure));
    } else {
      on_failure(std::move(failure));
    }
  }
  // It cannot hear a stop: no grace.
  end_worker(state_.workers.at(event.worker), 0.0, "gave no sign of life");
}

void Decision::on(const WorkerExited& event) {
  Worker* worker = find_live(event.worker);
  if (worker == nullptr) return;
  state_.last_report = std::max(state_.last_report, event.last_report);
  worker->reports = event.last_report;
  const WorkerStage stage = worker->stage;
  mark_gone(*worker);
  note_exit(*worker, event);
  if (stage != WorkerStage::finished) note_awaited(event.awaited_report, event.awaits_checkpoint);
  if (stage == WorkerStage::finished || stage == WorkerStage::failed) {
    if (state_.state == State::running && state_.judgement_pending) {
      state_.live == 0 ? apply_policy(Budget::worker) : judge(Budget::worker);
    }
    if (state_.live == 0 && state_.state == State::preempting && !state_.failures.empty()) {
      apply_policy(Budget::preemption);
    }
    return when_gone();
  }

  // An end that Paceline asked for is no failure; one in mid-loop is, with exit code 0 as well.
  const bool clean = event.end.status.exit_code == 0 && event.end.status.signal == 0;
  if (group_is_ending() && (clean || event.end.status.ended_by_paceline)) return when_gone();
  Failure failure = failure_of(*worker, FailureKind::exit);
  failure.ended = true;
  failure.end = event.end;
  // Whoever sends SIGTERM to all that a job has started sends it to the driver too, which says so in a moment.
  failure.collateral = event.end.status.signal == SIGTERM;
  if (state_.state == State::scheduling) {
    on_start_problem(std::move(failure));
  } else {
    on_failure(std::move(failure));
  }
  when_gone();
}

// What only the exit can tell is added to the failure that the worker has already.
void Decision::note_exit(Worker& worker, const WorkerExited& event) {
  note(LogLevel::debug, "worker " + std::to_string(worker.id.value) + " " + describe(event.end.status));
  if (worker.failure < 0) return;
  Failure& failure = state_.failures[static_cast<size_t>(worker.failure)];
  const ProcessEnd known = std::exchange(failure.end, event.end);
  failure.ended = true;
  if (known.phase == Phase::unknown) return;
  failure.end.step = known.step;  // where it was when it failed
  failure.end.phase = known.phase;
}

void Decision::on(const HangFound& event) {
  if (event.attempt != state_.attempt || event.generation != state_.generation) return;
  if (state_.state != State::running && state_.state != State::preempting) return;
  const std::string evidence = event.evidence.empty() ? "" : "; everybody's stacks are in " + event.evidence;
  if (!event.fail) return note(LogLevel::warning, "this looks like a hang: " + event.text + evidence);
  const bool waits = std::ranges::find(event.suspects, event.witness) == event.suspects.end();
  Failure failure{.kind = FailureKind::hang,
                  .text = event.text + evidence,
                  .frames = event.frames,
                  .witness = waits ? event.witness : -1,
                  .time = to_seconds(now_)};
  on_failure(std::move(failure));
}

void Decision::on(const ReportRefused& event) {
  if (event.attempt != state_.attempt || event.generation != state_.generation) return;
  if (state_.state != State::running && state_.state != State::preempting) return;
  on_failure({.kind = FailureKind::report, .text = event.error, .time = to_seconds(now_)});
}

// A failure of a group that runs, or is being ended.
void Decision::on_failure(Failure failure) {
  const bool collateral = failure.collateral;
  const bool preempted = std::ranges::find(state_.preempted_nodes, failure.node) != state_.preempted_nodes.end();
  const bool node_ended = failure.kind == FailureKind::node;
  if (preempted && (node_ended || failure.kind == FailureKind::exit)) failure.kind = FailureKind::preemption;
  const Budget budget = budget_for(failure);
  switch (state_.state) {
    case State::scheduling:
      record(std::move(failure));
      return apply_policy(budget);
    case State::running:
      // Of the whole group: no report comes any more. A rank that is silent makes none either.
      if (failure.kind != FailureKind::exception && failure.kind != FailureKind::exit) state_.awaited_report = 0;
      record(std::move(failure));
      return judge(budget);
    case State::preempting:
      record(std::move(failure));
      // Ranks that lose a peer on a preempted node fail too; the deadline or the whole group's end decides.
      if (!collateral && budget != Budget::preemption) return apply_policy(budget);
      if (state_.live == 0 || node_ended) apply_policy(Budget::preemption);
      return;
    case State::restarting:
    case State::rescheduling:
      record(std::move(failure));
      return;
    case State::shutting_down:
      if (state_.final_state == FinalState::errored) record(std::move(failure));
      return;
    default:
      return;
  }
}

// What a rank that has failed had reported is published before its failure is judged, if the others make that report in
// time: to them it was made together. The first failure says which; it cannot come (-1) once a rank ends that has not
// made it.
void Decision::note_awaited(int64_t report, bool has_checkpoint) {
  if (state_.state != State::running) return;
  if (!state_.judgement_pending) state_.awaited_report = report;
  if (report < 0) state_.awaited_report = 0;
  state_.awaits_checkpoint |= has_checkpoint;
}

// Applies the policy, or waits: for the cause of failures that follow from another's end, and for the report.
void Decision::judge(Budget budget) {
  const bool has_cause = std::ranges::any_of(state_.failures, [](const Failure& one) { return !one.collateral; });
  const bool is_training = std::ranges::any_of(
      state_.workers, [](const auto& worker) { return worker.second.stage == WorkerStage::training; });
  const bool awaits_report = state_.awaited_report > 0 && is_training;
  if (has_cause && !awaits_report) return apply_policy(budget);
  // Who raises has come to the end of what all do; who dies may do so anywhere.
  const bool may_be_all = state_.awaits_checkpoint || state_.failures.front().kind == FailureKind::exception;
  const double wait_s =
      awaits_report && may_be_all ? std::max(kCauseSeconds, state_.options.stop_grace_s) : kCauseSeconds;
  if (!std::exchange(state_.judgement_pending, true)) {
    note(LogLevel::debug,
         cause_line(state_.failures, state_.world_size) + "; " + seconds_text(wait_s) + " for " +
             (awaits_report ? "report " + std::to_string(state_.awaited_report) + ", which the others are still to make"
                            : "the cause, another's end, to show"));
  }
  set_timer(std::max(0.0, state_.failures.front().time + wait_s - to_seconds(now_)));
}

Decision::Budget Decision::budget_for(const Failure& cause) const {
  if (cause.kind == FailureKind::preemption) return Budget::preemption;
  // A process that dies before it has entered the train loop belongs to the start.
  if (cause.kind == FailureKind::exit && cause.end.phase == Phase::starting) return Budget::start;
  return Budget::worker;
}

// Restart within the budget, or end the run with the error. Called once for a group.
void Decision::apply_policy(Budget budget) {
  int64_t* count = &state_.worker_failures;
  int64_t limit = state_.options.max_failures;
  Setting setting = Setting::max_failures;
  if (budget == Budget::start) {
    count = &state_.start_failures;
    limit = state_.options.controller_failure_limit;
    setting = Setting::start_failures;
  } else if (budget == Budget::preemption) {
    count = &state_.preemption_failures;
    limit = state_.options.max_preemption_failures;
    setting = Setting::preemptions;
  }
  ++*count;
  ++state_.failures_in_a_row;
  blame_node();
  const std::string cause = cause_line(state_.failures, state_.world_size);
  const std::string name = setting_name(setting, state_.options.launch);
  if (budget == Budget::worker) forget_start_problems();
  const bool hopeless = budget == Budget::start && count_start_problem();
  if (hopeless || (limit >= 0 && *count > limit)) {
    const std::string why =
        hopeless ? "it failed in the same way " + std::to_string(state_.start_problem_count) + " times in a row"
                 : name + " is " + std::to_string(limit);
    note(LogLevel::error, cause + "; giving up: " + why);
    return shut_down(FinalState::errored, grace_after_failure(), cause);
  }
  const std::string tries = limit < 0 ? "no limit" : std::to_string(*count) + " of " + std::to_string(limit);
  note(LogLevel::warning, cause + "; trying again (" + name + ": " + tries + ")");
  end_group(budget == Budget::start ? State::rescheduling : State::restarting, grace_after_failure(), cause);
}

// Where the group failed first: a full disk, or a broken GPU, would fail the next as well. Losses count by themselves.
void Decision::blame_node() {
  const auto cause = std::ranges::find_if(state_.failures, [](const Failure& one) { return !one.collateral; });
  if (cause == state_.failures.end() || cause->worker.value == 0) return;
  const auto worker = state_.workers.find(cause->worker);
  if (worker != state_.workers.end()) ++state_.nodes[static_cast<size_t>(worker->second.node)].failures;
}

double Decision::grace_after_failure() const {
  const auto is_kill = [](const Failure& failure) {
    return failure.kind == FailureKind::exit && failure.end.status.signal == SIGKILL;
  };
  const bool killed = std::ranges::any_of(state_.failures, is_kill);
  return killed ? state_.options.killed_grace_s : state_.options.failure_grace_s;
}

}  // namespace paceline::policy
