// Play: feeds events to decide() and keeps what it wanted done. For tests of decide*.cpp.
#pragma once

#include <string>
#include <vector>

#include "paceline/policy/decide.h"

namespace paceline::policy {

// Feeds events to decide() and keeps what it wanted done last.
class Play {
 public:
  explicit Play(const RunOptions& options = {.num_workers = 2}, PublishedCheckpoints checkpoints = {})
      : options_(options) {
    feed(RunOpened{.epoch = {1}, .name = "test", .options = options, .checkpoints = std::move(checkpoints)});
  }

  // A run whose group has its ranks.
  static Play training(const RunOptions& options = {.num_workers = 2}) {
    Play run(options);
    run.bring_up_nodes();
    run.join_all();
    return run;
  }

  void feed(const Event& event) { actions_ = decide(state_, event, now_); }
  void bring_up_nodes(int64_t gpus = 0) {
    for (int64_t i = 0; i < options_.nodes; ++i) {
      feed(NodeJoined{{.name = "node" + std::to_string(i), .cores = 2, .gpus = gpus}});
    }
  }
  std::vector<WorkerId> workers() const {
    std::vector<WorkerId> ids;
    for (const auto& [id, worker] : state_.workers) ids.push_back(id);
    return ids;
  }
  WorkerId worker(size_t index) const { return workers().at(index); }
  void join_all() {
    for (const WorkerId id : workers()) feed(WorkerJoined{.worker = id, .pid = 100 + id.value});
  }
  void exit(WorkerId id, ExitStatus status = {}, Phase phase = Phase::training) {
    feed(WorkerExited{.worker = id, .end = {.status = status, .phase = phase}});
  }
  // The workers that are left end because they were told to.
  void exit_all() {
    for (const WorkerId id : workers()) {
      if (state_.workers.contains(id) && state_.workers.at(id).stage != WorkerStage::gone) {
        exit(id, {.signal = 9, .ended_by_paceline = true});
      }
    }
  }
  void fire_timer() { feed(TimerDue{.turn = state_.turn}); }
  void advance(double seconds) { now_ = from_seconds(to_seconds(now_) + seconds); }

  template <class A>
  std::vector<A> wanted() const {
    std::vector<A> found;
    for (const Action& action : actions_) {
      if (const A* one = std::get_if<A>(&action)) found.push_back(*one);
    }
    return found;
  }
  State state() const { return state_.state; }
  const RunState& all() const { return state_; }
  Time now() const { return now_; }

 private:
  RunOptions options_;
  RunState state_;
  Time now_ = from_seconds(1000);
  Actions actions_;
};

}  // namespace paceline::policy
