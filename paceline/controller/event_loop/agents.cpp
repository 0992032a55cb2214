// The agents: how they come, and are lost.

#include <algorithm>
#include <chrono>
#include <utility>

#include "paceline/controller/event_loop/run_loop_internal.h"
#include "paceline/core/posix/sealed_memory.h"

namespace paceline::controller {

using namespace policy;
namespace {

// Of an attachment that goes to another machine: between two of them other messages have their turn.
constexpr size_t kPartBytes = size_t{16} << 20;

constexpr double kDistantSeconds = 1e6;

}  // namespace

void RunLoop::receive(AgentCame& incoming) {
  const size_t number = agents_.size();
  const Agent& agent = agents_.emplace_back(Agent{.channel = std::move(incoming.channel)});
  Inbox& inbox = parts_.inbox;
  agent.channel->start(
      {.on_message = [&inbox, number](rpc::Envelope message) { inbox.push(FromAgent{number, std::move(message)}); },
       .on_close = [&inbox, number](const arrow::Status& status) { inbox.push(AgentGone{number, status}); }});
  // An agent that is gone already says so by its channel's end.
  if (!agent.is_elsewhere()) (void)agent.channel->send(rpc::pack(parts_.leftovers));
  if (agent.is_elsewhere() && !packages_.list().packages.empty()) {
    (void)agent.channel->send(rpc::pack(packages_.list()));
  }
  const arrow::Status sent = send_attachment(agent);
  if (!sent.ok()) lose_agent(number, sent.message());
}

void RunLoop::receive(const AgentFailed& incoming) {
  const AgentFailure& failure = incoming.failure;
  feed(NodeNotStarted{.node = failure.node, .error = failure.error, .to_come = failure.to_come});
}

// What its processes get beside their Welcomes: the descriptor, or, where none can go, what it holds.
arrow::Status RunLoop::send_attachment(const Agent& agent) {
  if (!agent.is_elsewhere()) {
    rpc::Envelope message = rpc::pack(rpc::Attachment{});
    ARROW_ASSIGN_OR_RAISE(Descriptor shared, attachment_.duplicate());
    message.descriptors.push_back(std::move(shared));
    (void)agent.channel->send(std::move(message));
    return arrow::Status::OK();
  }
  ARROW_ASSIGN_OR_RAISE(const SealedMemory attachment, SealedMemory::open(attachment_));
  std::string_view rest = attachment.bytes();
  do {
    const std::string_view part = rest.substr(0, kPartBytes);
    rest.remove_prefix(part.size());
    rpc::Envelope message = rpc::pack(rpc::Attachment{.more = !rest.empty()});
    message.bytes = part;
    (void)agent.channel->send(std::move(message));
  } while (!rest.empty());
  return arrow::Status::OK();
}

void RunLoop::join(size_t agent, const rpc::NodeReady& ready) {
  if (agents_[agent].node) return;
  if (const std::string why = why_not(ready); !why.empty()) {
    books_.log().warning("an agent on " + ready.host + " is sent away: " + why);
    return dismiss(agents_[agent], {.exit_code = 1, .reason = why});
  }
  agents_[agent].node = std::ssize(agent_of_node_);
  agent_of_node_.push_back(agent);
  feed(NodeJoined{{.name = unused_name(ready.node),
                   .host = ready.host,
                   .pid = ready.pid,
                   .cores = ready.cores,
                   .gpus = ready.gpus,
                   .memory_bytes = ready.memory_bytes,
                   .resources = ready.resources,
                   .labels = ready.labels,
                   .address = ready.address,
                   .rank = ready.rank,
                   .workers = ready.workers}});
}

// While the first group comes together two nodes of one rank are a mistake; later the second takes the place of one
// that is about to be lost.
std::string RunLoop::why_not(const rpc::NodeReady& ready) const {
  if (state().options.most_nodes > 0 && ready.workers == 0) {
    return "the run is one of `paceline run --nnodes`, which is joined by the same command";
  }
  const auto is_there = [&ready](const Node& node) { return !node.lost && node.name == ready.node; };
  if (one_agent_each_ && std::ranges::any_of(state().nodes, is_there)) {
    return "node " + ready.node + " has an agent already, whose command has ended before it";
  }
  const auto same = std::ranges::find_if(
      state().nodes, [&ready](const Node& node) { return !node.lost && node.rank >= 0 && node.rank == ready.rank; });
  if (same == state().nodes.end() || !state().workers.empty()) return "";
  return "the node rank " + std::to_string(ready.rank) + " is that of node " + same->name + " (process " +
         std::to_string(same->pid) + " on " + same->host + ") already; each node needs its own --node-rank";
}

// Its last message. It is not lost: it has no node, or the run is over.
void RunLoop::dismiss(Agent& agent, const rpc::Dismissed& how) {
  (void)agent.channel->send(rpc::pack(how));
  agent.lost = true;
  agent.channel->close();
}

void RunLoop::dismiss_all() {
  const RunOutcome outcome = books_.outcome();
  const std::string why = outcome.state == FinalState::aborted ? "the run was stopped: " + state().stop_reason
                                                               : outcome.error.substr(0, outcome.error.find('\n'));
  const rpc::Dismissed how{.exit_code = exit_code_of(outcome, parts_.stop.signal()), .reason = why};
  for (Agent& agent : agents_) {
    if (!agent.lost) dismiss(agent, how);
  }
}

// Its user has interrupted it.
void RunLoop::stop_for(size_t agent, const rpc::StopRun& stop) {
  const std::optional<int64_t> node = agents_[agent].node;
  const std::string where = node ? " on node " + state().nodes[static_cast<size_t>(*node)].name : "";
  feed(StopRequested{.reason = stop.reason + where, .cause = StopCause::interrupt});
}

// Two agents of one host, or hosts of one name, are two nodes.
std::string RunLoop::unused_name(const std::string& name) const {
  const auto is_used = [this](const std::string& candidate) {
    return std::ranges::any_of(state().nodes, [&](const Node& node) { return !node.lost && node.name == candidate; });
  };
  std::string candidate = name;
  for (int64_t number = 2; is_used(candidate); ++number) candidate = name + "_" + std::to_string(number);
  return candidate;
}

void RunLoop::note_leaving(size_t agent, const rpc::NodeLeaving& leaving) {
  const std::optional<int64_t> node = agents_[agent].node;
  if (!node) return;
  feed(PreemptionNoticed{.nodes = {state().nodes[static_cast<size_t>(*node)].name},
                         .deadline_s = std::clamp(leaving.seconds, 0.0, kDistantSeconds)});
}

void RunLoop::receive(AgentGone& incoming) {
  lose_agent(incoming.agent, incoming.status.ok() ? "its agent has ended" : incoming.status.message());
}

void RunLoop::lose_agent(size_t number, const std::string& why) {
  Agent& agent = agents_[number];
  if (std::exchange(agent.lost, true)) return;
  if (!agent.node && agent.is_elsewhere()) {
    return books_.log().warning("an agent has gone before it had said which node it serves: " + why);
  }
  const std::string name = agent.node ? state().nodes[static_cast<size_t>(*agent.node)].name : "";
  settle_questions(number);
  std::erase_if(logs_, [&](const auto& one) { return node_of(one.first) == agent.node; });
  std::erase_if(validations_, [&](const auto& one) { return node_of(one.first) == agent.node; });
  std::erase_if(data_processes_, [&](const auto& one) { return node_of(one.first) == agent.node; });
  std::erase_if(node_of_task_, [&](const auto& one) { return agent.node == one.second; });
  feed(NodeLost{name, why, books_.highest_report()});
}

// A rank elsewhere has failed for want of others: the ranks of a node that cannot be reached are the likely cause.
void RunLoop::note_unreachable_nodes() {
  for (const Agent& agent : agents_) {
    if (!agent.node || agent.lost || agent.channel->is_connected()) continue;
    feed(NodeUnreachable{state().nodes[static_cast<size_t>(*agent.node)].name});
  }
}

// Nobody waits for what it cannot answer any more.
void RunLoop::settle_questions(size_t agent) {
  rpc::Envelope none = rpc::pack(rpc::ProgressReply{});
  const auto numbers = [agent](const auto& questions) {
    std::vector<int64_t> numbers;
    for (const auto& [number, question] : questions) {
      if (question.due.contains(agent)) numbers.push_back(number);
    }
    return numbers;
  };
  for (const int64_t number : numbers(questions_)) {
    none.reply_to = number;
    receive_progress(agent, none);
  }
  for (const int64_t number : numbers(stack_questions_)) {
    none.reply_to = number;
    receive_stacks(agent, none);
  }
  for (const int64_t number : numbers(profile_questions_)) {
    rpc::Envelope nothing = rpc::pack(rpc::ProfileReply{});
    nothing.reply_to = number;
    receive_profiles(agent, nothing);
  }
  for (const int64_t number : numbers(collectives_questions_)) {
    none.reply_to = number;
    receive_collectives(agent, none);
  }
}

// An agent speaks for the processes of its node only.
bool RunLoop::speaks_for(size_t agent, WorkerId worker) const {
  const std::optional<int64_t> node = node_of(worker);
  return !node || node == agents_[agent].node;  // nobody's: late, or of no concern
}

}  // namespace paceline::controller
