// What decide() wants done.

#include <algorithm>
#include <cmath>
#include <csignal>

#include "paceline/controller/run_loop_internal.h"
#include "paceline/controller/tracking.h"
#include "paceline/controller/worker_process.h"
#include "paceline/run/worker_logs.h"

namespace paceline::controller {

using namespace policy;

const Worker* RunLoop::find(WorkerId id) const {
  const auto found = state_.workers.find(id);
  return found == state_.workers.end() ? nullptr : &found->second;
}

Identity RunLoop::identity_of(WorkerId worker) const {
  return {state_.epoch, state_.attempt, state_.generation, worker};
}

std::string RunLoop::name_of(const Worker& worker) const {
  return worker.rank >= 0 ? "rank " + std::to_string(worker.rank) : "worker " + std::to_string(worker.id.value);
}

std::string RunLoop::checkpoint_path(int64_t report) const {
  const auto kept = std::ranges::find(state_.checkpoints, report, &KeptCheckpoint::report);
  const std::string name = kept == state_.checkpoints.end() ? "" : kept->name;
  return checkpoint_location(parts_.request, checkpoint::folder_name(name, report));
}

// An agent that is gone says so by its channel's end.
void RunLoop::send(WorkerId id, rpc::Envelope envelope) {
  const Worker* worker = find(id);
  if (worker == nullptr) return;
  const size_t agent = agent_of_node_[static_cast<size_t>(worker->node)];
  [[maybe_unused]] const arrow::Status sent = agents_[agent]->send(std::move(envelope));
}

void RunLoop::execute(const EnterState& action) {
  parts_.log.debug("state: " + to_string(action.from) + " -> " + to_string(action.to) + ": " + action.reason);
  parts_.terminal.state(to_string(action.to));
  if (action.to != State::scheduling) return;
  workers_on_node_.clear();
  for (const auto& [id, worker] : state_.workers) ++workers_on_node_[worker.node];
  live_.progress.clear();
  live_.stragglers.clear();
  parts_.terminal.stragglers("");
  hang_watch_.forget();
  const double quota = parts_.request.run_config.log_quota_mb * 1e6 * static_cast<double>(state_.world_size);
  const WorkerId first{state_.last_worker.value - state_.world_size + 1};
  const arrow::Status trimmed =
      run::trim_worker_logs(parts_.request.run_folder, first, std::llround(std::min(quota, 1e18)));
  if (!trimmed.ok()) parts_.log.warning("logs of earlier attempts stay: " + trimmed.message());
}

void RunLoop::execute(const StartWorker& action) {
  const Node& node = state_.nodes[static_cast<size_t>(action.node)];
  const int64_t here = workers_on_node_[action.node];
  warn_about_cores(node, here);
  const int64_t threads = threads_of(parts_.request.scaling_config, node, here);
  rpc::Envelope start =
      rpc::pack(start_message(parts_.request, action.worker, threads, environment_, parts_.storage_proof));
  start.bytes = parts_.request.attachment;
  start.identity = identity_of(action.worker);
  send(action.worker, std::move(start));
}

void RunLoop::warn_about_cores(const Node& node, int64_t workers) {
  if (warned_about_cores_ || workers <= node.cores) return;
  warned_about_cores_ = true;
  parts_.log.warning(std::to_string(workers) + " workers share " + std::to_string(node.cores) + " cores on node " +
                     node.name + "; training is slower than with as many workers as cores");
}

void RunLoop::execute(const AssignWorkers& action) {
  book_.emplace(state_.world_size, action.first_report);
  group_ = {.attempt = action.attempt};
  for (const auto& [id, worker] : state_.workers) group_.workers.push_back(id);
  parts_.trackers.begin_attempt(attempt_start(state_, action.checkpoint, parts_.clock.now()), report_log_.history());
  rpc::Assign assign{.world_size = state_.world_size, .first_report = action.first_report};
  if (action.checkpoint != 0) {
    assign.checkpoint = checkpoint_path(action.checkpoint);
  } else {
    assign.checkpoint = parts_.request.resume_from_checkpoint.value_or("");
  }
  for (const auto& [id, worker] : state_.workers) {
    assign.rank = Rank{worker.rank};
    assign.local_rank = worker.local_rank;
    assign.local_world_size = worker.local_world_size;
    assign.node_rank = worker.node_rank;
    assign.node = state_.nodes[static_cast<size_t>(worker.node)].name;
    send(id, rpc::pack(assign, identity_of(id)));
  }
  callbacks_.assigned(state_);
}

// Programs hear of the user's wish as if it had been said to them; of everything else by SIGTERM.
void RunLoop::execute(const EndWorker& action) {
  const int signal = state_.final_state == State::aborted ? parts_.stop.signal() : SIGTERM;
  const rpc::EndProcess end{.grace_s = action.grace_s, .reason = action.reason, .signal = signal};
  send(action.worker, rpc::pack(end, identity_of(action.worker)));
}

void RunLoop::execute(const CloseGroup& action) {
  send_replies(table_.drop(action.attempt, action.generation));
  if (!book_) return;
  for (GroupReport& rest : book_->close()) report_log_.add(std::move(rest), action.attempt, parts_.clock.now());
  book_.reset();
  checkpoints_questions_.clear();  // with those who asked
  write_reports();
  parts_.publisher.add(std::move(group_));
}

void RunLoop::execute(const PublishCheckpoint& action) {
  const ReportLog::Entry* entry = report_log_.find(action.report);
  if (entry == nullptr) return;
  PublishJob job{.parts = entry->group.parts};
  job.about.report = action.report;
  job.about.name = entry->group.folder_name;
  job.about.attempt = entry->attempt.value;
  job.about.world_size = static_cast<int64_t>(entry->group.metrics.size());
  job.about.time = entry->time;
  job.about.metrics = entry->group.shown().front().value_or(Json::object());
  parts_.publisher.add(std::move(job));
}

void RunLoop::execute(const DeleteCheckpoint& action) {
  parts_.publisher.add(RemoveJob{action.report, action.name});
}

void RunLoop::execute(const TellCommitted& action) {
  const rpc::CheckpointCommitted committed{.index = action.report, .path = checkpoint_path(action.report)};
  for (const auto& [id, worker] : state_.workers) {
    if (worker.stage == WorkerStage::training) send(id, rpc::pack(committed, identity_of(id)));
  }
}

void RunLoop::execute(const SetTimer& action) {
  timer_ = Timer{action.turn, action.at};
}

void RunLoop::execute(const Note& action) {
  parts_.log.write(action.level, action.text);
}

void RunLoop::execute(const Finish&) {
  report_log_.settle_all();
  write_reports();
  const arrow::Status flushed = report_log_.flush();
  if (!flushed.ok()) parts_.log.error("the history could not be written: " + flushed.message());
  callbacks_.ended(state_);
}

}  // namespace paceline::controller
