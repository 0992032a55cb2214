// Simulator: plays decide()'s actions against workers, agents and a publisher that fail at random. For tests.
//
// One seed is one schedule. Every decision is checked as it is made: legal transitions, workers of the current group
// only, checkpoints never lost; with `fold` the state is also folded from the events as the journal would store them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <set>
#include <vector>

#include "paceline/policy/decide.h"
#include "paceline/policy/report_book.h"

namespace paceline::policy {

/// Probabilities, of one process or one occasion each. Nothing fails any more after `attempts` tries.
struct Faults {
  double start_failed = 0;
  double exit_before_join = 0;
  double hang_before_join = 0;
  double exception_before_join = 0;
  double exit_in_launch = 0;
  double exit_in_loop = 0;       // at each report
  double exception = 0;          // at each report
  double silence = 0;            // at each report
  double returns_early = 0;      // at each report
  double publish = 0;            // at each checkpoint
  double callback = 0;           // at each group that failed
  double unkillable = 0;         // at each kill
  double late_event = 0;         // after each end of a process
  double stop = 0;               // in the run, once or more
  double node_lost = 0;          // in the run
  double preemption = 0;         // in the run
  double resize = 0;             // in the run
  double validation = 0;         // at each checkpoint: one is asked for
  double validation_failed = 0;  // at each validation
  double validation_hangs = 0;   // at each validation, which has a time limit then
  double data_process_ends = 0;  // at each data process
  int tries = 12;
};

RunOptions random_options(std::mt19937_64& random);
Faults random_faults(std::mt19937_64& random);

class Simulator {
 public:
  Simulator(uint64_t seed, RunOptions options, Faults faults, bool fold);

  /// Plays until the run has ended, or `steps` events have passed.
  void play(int64_t steps = 10'000'000);
  /// The driver dies when that event has been journaled, before anything of it is done; another takes the run over with
  /// what journal and run folder hold. Needs `fold`. Not after the end of the run.
  void take_over_after(int64_t event) { takeover_ = event; }

  /// Called with each event, and what decide() made of it. Before play().
  using Watch = std::function<void(const Event&, const RunState&, const Actions&, Time)>;
  void watch(Watch watch) { watch_ = std::move(watch); }

  const RunState& state() const { return state_; }
  const std::vector<std::string>& violations() const { return violations_; }
  /// How often a state was entered.
  int64_t entered(State state) const { return entered_.contains(state) ? entered_.at(state) : 0; }
  const std::set<std::pair<State, State>>& transitions() const { return transitions_; }
  /// How many validations ended so.
  int64_t validations(CheckpointStatus status) const { return ended_.contains(status) ? ended_.at(status) : 0; }
  int64_t events() const { return events_; }

  static constexpr int64_t kReports = 6;  // that each worker makes in an attempt
  static constexpr int64_t kCheckpointEvery = 2;

 private:
  struct Process {
    WorkerId id;
    bool alive = true;
    bool joined = false;
    bool silent = false;
    bool done = false;
    int64_t rank = -1;
    int64_t reports = 0;
    int64_t last_report = 0;
    int64_t group = 0;
  };
  struct Due {
    Time at;
    int64_t order = 0;
    std::function<void()> run;
    bool operator<(const Due& other) const { return std::tie(at, order) > std::tie(other.at, other.order); }
  };

  void after(double seconds, std::function<void()> run);
  bool roll(double probability);
  double seconds(double low, double high);
  void require(bool holds, const std::string& what);
  void feed(const Event& event);
  void check_fold(const Event& event);
  void open(ControllerEpoch epoch, PublishedCheckpoints checkpoints, int64_t last_report);
  void take_over();
  void schedule_disturbances();
  void lose_node();

  void execute(const EnterState& action);
  void execute(const StartWorker& action);
  void execute(const AssignWorkers& action);
  void execute(const EndWorker& action);
  void execute(const CloseGroup& action);
  void execute(const PublishCheckpoint& action);
  void execute(const DeleteCheckpoint& action);
  void execute(const TellCommitted& action);
  void execute(const StartValidation& action);
  void execute(const EndValidation& action);
  void end_validation(ValidationEnded event);
  void execute(const StartDataProcess& action);
  void execute(const SetTimer& action);
  void execute(const TellCallbacks& action);
  void execute(const Note&) {}
  void execute(const Finish& action);

  void step(WorkerId id);
  void report(Process& process);
  void leave(Process& process);
  void exit(Process& process, ExitStatus status, Phase phase);
  void fail_peers(const Process& process);
  AwaitedReport awaited_of(const Process& process, bool is_gone) const;
  void end_wait_for_report();
  void check_awaited();
  bool faulty() const { return group_ <= faults_.tries; }

  std::mt19937_64 random_;
  RunOptions options_;
  Faults faults_;
  bool fold_;
  Watch watch_;
  RunState state_;
  RunState folded_;
  Time now_ = from_seconds(1'790'000'000);
  std::priority_queue<Due> queue_;
  Time publisher_free_{};
  int64_t order_ = 0;
  int64_t timer_ = 0;
  int64_t group_ = 0;
  int64_t events_ = 0;
  int64_t takeover_ = 0;
  bool starting_group_ = true;
  bool finished_ = false;
  bool dead_ = false;  // the driver
  std::map<WorkerId, Process> processes_;
  std::set<WorkerId> alive_;
  std::set<WorkerId> used_ids_;
  std::set<std::pair<Attempt, Generation>> used_places_;
  std::set<int64_t> publishing_;
  std::map<WorkerId, int64_t> validating_;  // processes that live, and their checkpoints
  std::set<int64_t> to_validate_;           // asked for and not ended, as far as the run has been told
  int64_t complete_reports_ = 0;            // the highest number whose report the history may hold
  std::unique_ptr<ReportBook> book_;
  std::set<int64_t> published_;
  int64_t highest_report_ = 0;
  std::map<State, int64_t> entered_;
  std::map<CheckpointStatus, int64_t> ended_;
  std::set<std::pair<State, State>> transitions_;
  std::vector<std::string> violations_;
};

}  // namespace paceline::policy
