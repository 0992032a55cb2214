#include "paceline/policy/state.h"

#include <algorithm>

namespace paceline::policy {
namespace {

const std::map<State, std::vector<State>>& transitions() {
  using enum State;
  static const std::map<State, std::vector<State>> table = {
      {initializing, {scheduling, shutting_down}},
      {scheduling, {running, rescheduling, restarting, shutting_down}},
      {rescheduling, {scheduling, shutting_down}},
      {running, {preempting, resizing, rescheduling, restarting, shutting_down}},
      {preempting, {rescheduling, restarting, shutting_down}},
      {resizing, {scheduling, shutting_down}},
      {restarting, {scheduling, shutting_down}},
      {shutting_down, {finished, errored, aborted}},
  };
  return table;
}

}  // namespace

WorkerStage shown_stage(const Worker& worker) {
  return worker.stage == WorkerStage::gone && worker.completed ? WorkerStage::finished : worker.stage;
}

std::string to_string(State state) {
  return Json(state).get<std::string>();
}

std::optional<FinalState> final_state_of(State state) {
  switch (state) {
    case State::finished:
      return FinalState::finished;
    case State::errored:
      return FinalState::errored;
    case State::aborted:
      return FinalState::aborted;
    default:
      return std::nullopt;
  }
}

bool is_terminal(State state) {
  return final_state_of(state).has_value();
}

State state_of(FinalState state) {
  switch (state) {
    case FinalState::finished:
      return State::finished;
    case FinalState::errored:
      return State::errored;
    case FinalState::aborted:
      break;
  }
  return State::aborted;
}

bool is_legal(State from, State to) {
  if (to == State::initializing) return true;
  const auto found = transitions().find(from);
  return found != transitions().end() && std::ranges::find(found->second, to) != found->second.end();
}

}  // namespace paceline::policy
