// The nodes of a run: agents announce themselves, are lost, and others take their place.
//
// The first group waits for all agents that the launcher has announced. After the loss of a node the next group starts
// as soon as the workers fit on what is there; where they do not, it waits for the engine to give more.
// A run that takes as many nodes as come (RunOptions::most_nodes) gives those beyond the least some time.

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "paceline/policy/decide_internal.h"
#include "paceline/policy/failure_text.h"
#include "paceline/policy/placement.h"

namespace paceline::policy {

int64_t Decision::nodes_left() const {
  return std::ranges::count_if(state_.nodes, [](const Node& node) { return !node.lost; });
}

void Decision::on(const NodeJoined& event) {
  if (is_terminal(state_.state)) return;
  state_.nodes.push_back(event.node);
  state_.leaving.erase(event.node.name);  // another's of that name
  if (state_.state != State::initializing) {
    return note(LogLevel::info, "node " + event.node.name + " has joined; the next group may use it");
  }
  if (state_.workers.empty() && nodes_left() < state_.options.nodes) {
    return note(LogLevel::info, "node " + event.node.name + " is there, " + std::to_string(nodes_left()) + " of " +
                                    std::to_string(state_.options.nodes) + "; waiting for the others");
  }
  begin_group();
  start_validations();
}

// A group that has workers on a node which will be taken away trains until then.
void Decision::heed_notices() {
  if (state_.state != State::running && state_.state != State::preempting) return;
  const double now = to_seconds(now_);
  std::optional<double> first;
  for (const auto& [id, worker] : state_.workers) {
    if (worker.stage == WorkerStage::gone) continue;
    const auto notice = state_.leaving.find(state_.nodes[static_cast<size_t>(worker.node)].name);
    // One that stays beyond its time was told of in vain.
    if (notice == state_.leaving.end() || notice->second <= now) continue;
    first = std::min(first.value_or(notice->second), notice->second);
  }
  if (!first) return;
  if (state_.state == State::running) {
    go(State::preempting, "nodes will be taken away in " + seconds_text(*first - now));
  }
  set_timer(*first - now);
}

// Whether what happens to the node is what was announced.
bool Decision::is_leaving(const std::string& node) const {
  constexpr double kLateSeconds = 60;
  const auto notice = state_.leaving.find(node);
  return notice != state_.leaving.end() && to_seconds(now_) <= notice->second + kLateSeconds;
}

Placement Decision::placement() const {
  Lines leaving;
  for (const auto& [node, deadline] : state_.leaving) leaving.push_back(node);
  return state_.options.most_nodes > 0 ? fill(state_.nodes, state_.options)
                                       : place(state_.nodes, state_.options, state_.world_size, leaving);
}

// That a group does not begin without before they have had their time: as many as there can be, or as the last had.
int64_t Decision::nodes_wanted() const {
  if (state_.workers.empty() || state_.options.most_nodes == 0) return state_.options.most_nodes;
  std::set<int64_t> earlier;
  for (const auto& [id, worker] : state_.workers) earlier.insert(worker.node);
  return std::ssize(earlier);
}

// The first group, or the next, where its nodes are there; where they are not, `waits` sees to the waiting.
void Decision::begin_group(bool waits) {
  const Placement found = placement();
  if (found.counts.empty() && state_.options.nodes_may_come) return wait_for_nodes(found.problem);
  if (waits && nodes_left() < nodes_wanted()) return wait_for_last_nodes();
  if (state_.workers.empty()) return start_group("all agents have announced themselves");
  if (state_.state == State::rescheduling) {
    state_.generation = state_.generation.next();
  } else {
    state_.attempt = state_.attempt.next();
    state_.generation = {};
  }
  start_group("nothing is left of the earlier group");
}

void Decision::on(const NodeNotStarted& event) {
  if (is_terminal(state_.state)) return;
  const std::string text = "no agent could be started on node " + event.node + ": " + event.error;
  const bool is_first = state_.state == State::initializing && state_.workers.empty();
  const int64_t there = nodes_left() + event.to_come;
  if (!is_first || there >= state_.options.nodes) return note(LogLevel::warning, text);
  end_with(FailureKind::node, text, "the run needs " + std::to_string(state_.options.nodes) + " nodes");
}

// Its ranks are gone, as far as those of other nodes can tell; that the node is lost is known only after its lease.
void Decision::on(const NodeUnreachable& event) {
  if (state_.state != State::running) return;
  const bool has_workers = std::ranges::any_of(state_.workers, [&](const auto& one) {
    const Worker& worker = one.second;
    return worker.stage == WorkerStage::training && state_.nodes[static_cast<size_t>(worker.node)].name == event.node;
  });
  const bool is_known = std::ranges::any_of(state_.failures, [&](const Failure& failure) {
    return failure.kind == FailureKind::node && failure.node == event.node;
  });
  if (!has_workers || is_known) return;
  on_failure({.kind = FailureKind::node,
              .node = event.node,
              .text = "the connection to its agent is cut, and ranks of other nodes miss its ranks",
              .time = to_seconds(now_)});
}

void Decision::on(const NodeLost& event) {
  if (is_terminal(state_.state)) return;
  state_.last_report = std::max(state_.last_report, event.last_report);
  const auto node =
      std::ranges::find_if(state_.nodes, [&event](const Node& one) { return !one.lost && one.name == event.node; });
  const bool had_workers = node != state_.nodes.end() && lose(static_cast<size_t>(node - state_.nodes.begin()));
  if (state_.state == State::shutting_down && !waits_for_validations()) return when_gone();
  Failure failure{.kind = FailureKind::node, .node = event.node, .text = event.error, .time = to_seconds(now_)};
  if (!state_.options.nodes_may_come || (state_.state == State::shutting_down && nodes_left() == 0)) {
    record(std::move(failure));
    const std::string cause = cause_line(state_.failures, state_.world_size);
    note(LogLevel::error, cause + (state_.nodes.empty() ? "" : "; giving up: agents do not come back"));
    return shut_down(FinalState::errored, state_.options.failure_grace_s, cause);
  }
  give_up_validations();
  start_validations();
  if (state_.last_call && nodes_left() < state_.options.nodes) {
    state_.last_call = false;
    set_timer(state_.options.start_timeout_s);
  }
  if (!had_workers) {
    note(LogLevel::warning, "node " + event.node + ", on which no worker runs, is lost: " + event.error);
    return when_gone();
  }
  // Its workers' peers have failed of it sooner, and were taken for the cause.
  if (group_is_ending()) note(LogLevel::warning, "node " + event.node + " is lost: " + event.error);
  on_failure(std::move(failure));
  when_gone();
}

// What was on the node is gone with it; validations begin anew elsewhere. Whether workers were there.
bool Decision::lose(size_t node) {
  state_.nodes[node].lost = true;
  bool had_workers = false;
  for (auto& [id, worker] : state_.workers) {
    if (static_cast<size_t>(worker.node) != node || worker.stage == WorkerStage::gone) continue;
    had_workers |= worker.stage != WorkerStage::finished;
    mark_gone(worker);
  }
  if (node < state_.data_processes.size()) state_.data_processes[node].worker = {};
  for (Validation& one : state_.validations) {
    if (static_cast<size_t>(one.node) != node || one.worker.value == 0) continue;
    one.worker = {};
    ++one.losses;
  }
  return had_workers;
}

void Decision::wait_for_nodes(const std::string& problem) {
  const std::string wait = "waiting for nodes, at most " + seconds_text(state_.options.start_timeout_s) +
                           named(Setting::start_timeout) + ": " + problem;
  note(LogLevel::warning, wait);
  if (state_.state == State::initializing) return;  // its time runs
  go(State::initializing, wait);
  set_timer(state_.options.start_timeout_s);
}

void Decision::wait_for_last_nodes() {
  if (std::exchange(state_.last_call, true)) return;  // their time runs
  const std::string wait = std::to_string(nodes_left()) + " of at most " + std::to_string(state_.options.most_nodes) +
                           " nodes are there; waiting " + seconds_text(state_.options.last_call_s) + " for others";
  note(LogLevel::info, wait);
  if (state_.state != State::initializing) go(State::initializing, wait);
  set_timer(state_.options.last_call_s);
}

void Decision::on_nodes_timeout() {
  if (std::exchange(state_.last_call, false)) return begin_group(/*waits=*/false);
  const std::string within = " within " + seconds_text(state_.options.start_timeout_s) + named(Setting::start_timeout);
  if (nodes_left() < state_.options.nodes && state_.workers.empty()) {
    return end_with(FailureKind::node,
                    "only " + std::to_string(nodes_left()) + " of " + std::to_string(state_.options.nodes) +
                        (state_.options.launch ? " nodes came" : " agents announced themselves") + within,
                    "agents are missing");
  }
  end_with(FailureKind::resources, placement().problem + "; no other node came" + within, "the workers do not fit");
}

}  // namespace paceline::policy
