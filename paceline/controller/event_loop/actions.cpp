// What decide() wants done.

#include <algorithm>
#include <cmath>
#include <csignal>

#include "paceline/controller/event_loop/run_loop_internal.h"
#include "paceline/controller/worker_process.h"
#include "paceline/core/posix/descriptor_limit.h"
#include "paceline/run/worker_logs.h"

namespace paceline::controller {

using namespace policy;
namespace {

constexpr int64_t kDescriptorsBeside = 64;

}  // namespace

const Worker* RunLoop::find(WorkerId id) const {
  const auto found = state().workers.find(id);
  return found == state().workers.end() ? nullptr : &found->second;
}

Identity RunLoop::identity_of(WorkerId worker) const {
  return {state().epoch, state().attempt, state().generation, worker};
}

std::string RunLoop::name_of(const Worker& worker) const {
  return worker.rank >= 0 ? "rank " + std::to_string(worker.rank) : "worker " + std::to_string(worker.id.value);
}

// A process that lives for its task is nobody's rank: where it is stands here until its end.
void RunLoop::start(const rpc::Role& role, WorkerId id, int64_t node, rpc::StartProcess message) {
  if (role.lifetime == rpc::Lifetime::task) node_of_task_[id] = node;
  message.welcome["config_bytes"] = config_bytes_;
  message.waiting_streams = waiting_streams_;
  if (agent_of(node).is_elsewhere()) {
    begin_elsewhere(message, request_);
    // Its log, and what the driver opens besides.
    const arrow::Status room = reserve_descriptors(kDescriptorsBeside);
    if (!room.ok()) return fail_to_start(id, node, {.error = room.message()});
    auto log =
        RotatingLog::open(message.log_file, {.file_bytes = message.log_file_bytes, .most_files = message.log_files});
    if (!log.ok()) return fail_to_start(id, node, {.error = log.status().message()});
    logs_.insert_or_assign(id, *std::move(log));
  }
  const arrow::Status sent = agent_of(node).channel->send(rpc::pack(message, identity_of(id)));
  if (!sent.IsInvalid()) return;  // of an agent that is gone its channel's end tells
  fail_to_start(id, node,
                {.error = "what it is started with (environment, configurations) cannot be sent: " + sent.message(),
                 .hopeless = true});
}

// Told as its agent would.
void RunLoop::fail_to_start(WorkerId id, int64_t node, const rpc::ProcessStartFailed& failed) {
  parts_.inbox.push(FromAgent{agent_of_node_[static_cast<size_t>(node)], rpc::pack(failed, identity_of(id))});
}

std::optional<int64_t> RunLoop::node_of(WorkerId id) const {
  const auto task = node_of_task_.find(id);
  if (task != node_of_task_.end()) return task->second;
  const Worker* worker = find(id);
  return worker == nullptr ? std::nullopt : std::optional(worker->node);
}

// An agent that is gone says so by its channel's end. Who waits for a reply that is too large is told so.
void RunLoop::send(WorkerId id, rpc::Envelope envelope) {
  const std::optional<int64_t> node = node_of(id);
  if (!node) return;
  rpc::Channel& agent = *agent_of(*node).channel;
  const int64_t request = envelope.reply_to;
  const std::string type = envelope.type;
  const arrow::Status sent = agent.send(std::move(envelope));
  if (!sent.IsInvalid() || request == 0) return;
  rpc::Envelope refused = rpc::pack(rpc::Refused{"a " + type + " cannot be sent: " + sent.message()}, identity_of(id));
  refused.reply_to = request;
  (void)agent.send(std::move(refused));
}

void RunLoop::execute(const EnterState& action) {
  if (action.to != State::scheduling) return;
  workers_on_node_.clear();
  for (const auto& [id, worker] : state().workers) ++workers_on_node_[worker.node];
  live_.progress.clear();
  coming_.clear();
  group_begun_ = parts_.clock.now();
  live_.stragglers.clear();
  books_.terminal().stragglers("");
  hang_watch_.forget();
  const double quota = request_.run_config.log_quota_mb * 1e6 * static_cast<double>(state().world_size);
  const WorkerId first{state().last_worker.value - state().world_size + 1};
  const arrow::Status trimmed = run::trim_worker_logs(request_.run_folder, first, std::llround(std::min(quota, 1e18)));
  if (!trimmed.ok()) books_.log().warning("logs of earlier attempts stay: " + trimmed.message());
}

void RunLoop::execute(const StartWorker& action) {
  const Node& node = state().nodes[static_cast<size_t>(action.node)];
  const int64_t here = workers_on_node_[action.node];
  warn_about_cores(node, here);
  const int64_t threads = threads_of(request_.scaling_config, node, here);
  coming_[action.worker] = 0;
  rpc::StartProcess message = start_message(request_, action.worker, threads, environment_, books_.storage_proof());
  if (request_.run_config.debug_config.heap_profile) profile_heap(message);
  start(request_.role, action.worker, action.node, std::move(message));
}

void RunLoop::warn_about_cores(const Node& node, int64_t workers) {
  if (warned_about_cores_ || workers <= node.cores) return;
  warned_about_cores_ = true;
  books_.log().warning(std::to_string(workers) + " workers share " + std::to_string(node.cores) + " cores on node " +
                       node.name + "; training is slower than with as many workers as cores");
}

void RunLoop::execute(const AssignWorkers& action) {
  group_ = {.attempt = action.attempt};
  if (request_.take_exception) request_.take_exception(-1, "");
  for (const auto& [id, worker] : state().workers) group_.workers.push_back(id);
  rpc::Assign assign{.world_size = state().world_size, .first_report = action.first_report};
  assign.checkpoint = books_.start_path(action.checkpoint).with_credentials();
  assign.nodes = std::ssize(workers_on_node_);
  const bool on_one_node = assign.nodes == 1;
  for (const auto& [id, worker] : state().workers) {
    assign.rank = Rank{worker.rank};
    assign.local_rank = worker.local_rank;
    assign.local_world_size = worker.local_world_size;
    assign.node_rank = worker.node_rank;
    const Node& node = state().nodes[static_cast<size_t>(worker.node)];
    assign.node = node.name;
    assign.address = on_one_node ? "" : node.address;
    if (worker.rank == 0) assign.master_address = assign.address;
    send(id, rpc::pack(assign, identity_of(id)));
  }
}

// Programs hear of the user's wish as if it had been said to them; of everything else by SIGTERM.
void RunLoop::execute(const EndWorker& action) {
  const int signal = state().final_state == FinalState::aborted ? parts_.stop.signal() : SIGTERM;
  const rpc::EndProcess end{.grace_s = action.grace_s, .reason = action.reason, .signal = signal};
  send(action.worker, rpc::pack(end, identity_of(action.worker)));
}

void RunLoop::execute(const CloseGroup& action) {
  send_replies(table_.drop(action.attempt, action.generation));
  checkpoints_questions_.clear();  // with those who asked
  if (checkpoint_request_) decide_checkpoint(0, "the attempt has ended");
  taken_.clear();
  unanswered_bytes_.clear();
  if (!group_.workers.empty()) parts_.publisher.add(std::exchange(group_, {}));
}

void RunLoop::publish(PublishJob job) {
  parts_.publisher.add(std::move(job));
}

void RunLoop::execute(const DeleteCheckpoint& action) {
  parts_.publisher.add(RemoveJob{action.report, action.name});
}

void RunLoop::execute(const TellCommitted& action) {
  const rpc::CheckpointCommitted committed{.index = action.report,
                                           .path = books_.checkpoint_path(action.report).with_credentials()};
  for (const auto& [id, worker] : state().workers) {
    if (worker.stage == WorkerStage::training) send(id, rpc::pack(committed, identity_of(id)));
  }
}

void RunLoop::execute(const SetTimer& action) {
  timer_ = Timer{action.turn, action.at};
}

}  // namespace paceline::controller
