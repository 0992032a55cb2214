// From nothing to a running group, and what is done when that does not work.

#include <algorithm>
#include <csignal>
#include <numeric>

#include "paceline/core/run_layout.h"
#include "paceline/policy/decide_internal.h"
#include "paceline/policy/failure_text.h"

namespace paceline::policy {

double back_off_seconds(int64_t failures_in_a_row) {
  if (failures_in_a_row <= 1) return 0.0;
  const int64_t doublings = std::min<int64_t>(failures_in_a_row - 2, 10);
  return std::min(30.0, 0.1 * static_cast<double>(int64_t{1} << doublings));
}

void Decision::start_group(const std::string& reason) {
  const Placement found = placement();
  if (found.counts.empty() && state_.options.nodes_may_come) return wait_for_nodes(found.problem);
  if (found.counts.empty()) {
    const bool gpus = state_.options.gpus_per_worker > 0;
    return end_with(FailureKind::resources,
                    found.problem + "; lower ScalingConfig.num_workers or what each worker needs" +
                        (gpus ? ", or set use_gpu to false" : ""),
                    "the workers do not fit");
  }
  const std::vector<int64_t>& counts = found.counts;
  if (state_.options.most_nodes > 0) state_.world_size = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  go(State::scheduling, reason);
  state_.workers.clear();
  state_.failures.clear();
  state_.worker_errors.clear();
  state_.live = state_.joined = state_.completed = 0;
  state_.judgement_pending = state_.closed = false;
  state_.awaited_report = 0;
  state_.awaits_checkpoint = state_.last_call = false;
  note(LogLevel::info, "attempt " + std::to_string(state_.attempt.value) + ": starting " +
                           std::to_string(state_.world_size) + (state_.world_size == 1 ? " worker" : " workers"));
  start_data_processes(counts);  // before the workers, whose numbers follow each other
  for (const size_t node : in_rank_order(state_.nodes)) {
    for (int64_t i = 0; i < counts[node]; ++i) {
      state_.last_worker = state_.last_worker.next();
      const WorkerId id = state_.last_worker;
      state_.workers[id] = {.id = id, .node = static_cast<int64_t>(node)};
      ++state_.live;
      act(StartWorker{id, static_cast<int64_t>(node)});
    }
  }
  set_timer(state_.options.start_timeout_s);
}

void Decision::on(const WorkerStarted& event) {
  if (Worker* worker = find_live(event.worker)) worker->pid = event.pid;
}

void Decision::on(const StartFailed& event) {
  Worker* worker = find_live(event.worker);
  if (worker == nullptr) return;
  Failure failure = failure_of(*worker, FailureKind::start);
  failure.text = event.error;
  mark_gone(*worker);
  if (state_.state != State::scheduling) return when_gone();
  if (!event.hopeless) return on_start_problem(std::move(failure));
  record(std::move(failure));
  const std::string cause = cause_line(state_.failures, state_.world_size);
  note(LogLevel::error, cause + "; giving up: another try would fail of the same");
  shut_down(FinalState::errored, state_.options.failure_grace_s, cause);
}

void Decision::on(const WorkerJoined& event) {
  Worker* worker = find_live(event.worker);
  if (worker == nullptr || worker->stage != WorkerStage::starting) return;
  worker->stage = WorkerStage::joined;
  worker->pid = event.pid;
  ++state_.joined;
  if (state_.state == State::scheduling && state_.joined == state_.world_size) assign_group();
}

// Workers were placed node by node in the order of their ids, so ranks in that order are contiguous on each node.
void Decision::assign_group() {
  go(State::running, "all workers have joined");
  std::vector<int64_t> size_of_node(state_.nodes.size(), 0);
  for (const auto& [id, worker] : state_.workers) ++size_of_node[static_cast<size_t>(worker.node)];
  std::vector<int64_t> used(state_.nodes.size(), 0);
  int64_t rank = 0;
  int64_t node_rank = -1;
  for (auto& [id, worker] : state_.workers) {
    const auto node = static_cast<size_t>(worker.node);
    if (used[node] == 0) ++node_rank;
    worker.rank = rank++;
    worker.local_rank = used[node]++;
    worker.local_world_size = size_of_node[node];
    worker.node_rank = node_rank;
    worker.stage = WorkerStage::training;
  }
  state_.first_report = state_.last_report + 1;
  const int64_t checkpoint = state_.checkpoints.empty() ? 0 : state_.checkpoints.back().report;
  note(LogLevel::info, "attempt " + std::to_string(state_.attempt.value) + ": all workers have joined, training" +
                           (checkpoint == 0 ? "" : " from the checkpoint of report " + std::to_string(checkpoint)));
  act(AssignWorkers{state_.attempt, state_.generation, state_.first_report, checkpoint});
  heed_notices();
}

namespace {

// "logs/worker_3.log, logs/worker_4.log"; of many, the first.
std::string logs_text(const std::vector<int64_t>& workers) {
  constexpr size_t kMost = 3;
  std::string text;
  for (size_t i = 0; i < std::min(workers.size(), kMost); ++i) {
    text += (i == 0 ? "" : ", ") + run_layout::worker_log(WorkerId{workers[i]});
  }
  return workers.size() > kMost ? text + ", …" : text;
}

}  // namespace

void Decision::on_start_timeout() {
  std::vector<int64_t> missing;
  for (const auto& [id, worker] : state_.workers) {
    if (worker.stage == WorkerStage::starting) missing.push_back(id.value);
  }
  Failure failure{.kind = FailureKind::timeout, .time = to_seconds(now_)};
  failure.text =
      std::to_string(missing.size()) + " of " + std::to_string(state_.world_size) + " workers did not join within " +
      seconds_text(state_.options.start_timeout_s) + named(Setting::start_timeout) + ": workers " +
      ranges_text(missing) +
      ". A C++ program must call paceline::init() at the top of main(); a Python worker may be importing for as long. "
      "What they wrote: " +
      logs_text(missing) + " in the run folder";
  on_start_problem(std::move(failure));
}

void Decision::on_start_problem(Failure failure) {
  record(std::move(failure));
  apply_policy(Budget::start);
}

namespace {

// What a start failed of, in words that are the same when it fails of it again.
std::string start_problem_of(const Failure& failure) {
  switch (failure.kind) {
    case FailureKind::exit:
      return describe(failure.end.status);
    case FailureKind::start:
      return "could not be started: " + without_numbers(failure.text);
    default:
      return Json(failure.kind).get<std::string>();
  }
}

}  // namespace

// Counts the latest failure, of a start; true when trying again would not help. Before any worker of the run has
// entered its train loop it is the program itself that ends; later, or if it is killed, the machine has its part in it,
// and may heal.
bool Decision::count_start_problem() {
  const Failure& failure = state_.failures.back();
  std::string problem = start_problem_of(failure);
  state_.start_problem_count = problem == state_.start_problem ? state_.start_problem_count + 1 : 1;
  state_.start_problem = std::move(problem);
  const bool of_itself =
      failure.kind == FailureKind::exit && failure.end.status.signal != SIGKILL && !state_.ever_trained;
  return state_.start_problem_count >= (of_itself ? kSameExits : kSameStarts);
}

void Decision::forget_start_problems() {
  state_.ever_trained = true;
  state_.start_problem.clear();
  state_.start_problem_count = 0;
}

}  // namespace paceline::policy
