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

bool is_terminal(State state) {
  return state == State::finished || state == State::errored || state == State::aborted;
}

bool is_legal(State from, State to) {
  if (to == State::initializing) return true;
  const auto found = transitions().find(from);
  return found != transitions().end() && std::ranges::find(found->second, to) != found->second.end();
}

}  // namespace paceline::policy
