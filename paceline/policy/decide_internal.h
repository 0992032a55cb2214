// Decision: one call of decide(), split by concern over decide*.cpp.
#pragma once

#include <string>

#include "paceline/policy/decide.h"
#include "paceline/policy/placement.h"
#include "paceline/policy/setting_name.h"

namespace paceline::policy {

// For a rank that waited in a collective that hangs to say in which line: until its names are looked up.
constexpr double kWitnessSeconds = 10;

class Decision {
 public:
  Decision(RunState& state, Time now) : state_(state), now_(now) {}

  // decide.cpp: the run as a whole
  void on(const RunOpened& event);
  void on(const StopRequested& event);
  void on(const CallbackFailed& event);
  void on(const StorageFailed& event);
  void on(const TimerDue& event);
  void on(const PreemptionNoticed& event);
  void on(const ResizeWanted& event);
  // decide_nodes.cpp
  void on(const NodeJoined& event);
  void on(const NodeNotStarted& event);
  void on(const NodeLost& event);
  void on(const NodeUnreachable& event);
  // decide_start.cpp: from nothing to a running group
  void on(const WorkerStarted& event);
  void on(const StartFailed& event);
  void on(const WorkerJoined& event);
  // decide_failure.cpp: what happens to a worker
  void on(const WorkerFinished& event);
  void on(const WorkerFailed& event);
  bool is_witness(const Worker& worker) const;
  void tell_witness(const Worker& worker, const WorkerFailed& event);
  void on(const WorkerExited& event);
  void on(const WorkerSilent& event);
  void on(const HangFound& event);
  void on(const ReportRefused& event);
  // decide_checkpoint.cpp
  void on(const CheckpointReady& event);
  void on(const CheckpointPublished& event);
  void on(const PublishFailed& event);
  // decide_validation.cpp
  void on(const ValidationOverdue& event);
  void on(const ValidationEnded& event);
  // decide_data.cpp
  void on(const DataProcessEnded& event);

  Actions take() && { return std::move(actions_); }

 private:
  enum class Budget { worker, start, preemption };

  // decide.cpp
  void stop_as_finished(StopCause cause, const std::string& reason);
  void end_with(FailureKind kind, const std::string& text, const std::string& reason);
  void go(State state, const std::string& reason);
  void set_timer(double seconds);
  void note(LogLevel level, std::string text);
  // " (FailureConfig.start_timeout_s)"; nothing where users cannot set it.
  std::string named(Setting setting) const;
  void act(Action action) { actions_.push_back(std::move(action)); }
  Worker* find_live(WorkerId id);

  // decide_nodes.cpp
  int64_t nodes_left() const;
  bool lose(size_t node);
  void begin_group(bool waits = true);
  void give_up_validations();
  void heed_notices();
  bool is_leaving(const std::string& node) const;
  Placement placement() const;
  int64_t nodes_wanted() const;
  void wait_for_nodes(const std::string& problem);
  void wait_for_last_nodes();
  void on_nodes_timeout();

  // decide_start.cpp
  void start_group(const std::string& reason);
  void assign_group();
  void on_start_problem(Failure failure);
  bool count_start_problem();
  void forget_start_problems();
  void on_start_timeout();

  // decide_failure.cpp
  Failure failure_of(const Worker& worker, FailureKind kind) const;
  int64_t record(Failure failure);
  bool group_is_ending() const;
  void on_failure(Failure failure);
  void note_awaited(int64_t report, bool has_checkpoint);
  void judge(Budget budget);
  void apply_policy(Budget budget);
  Budget budget_for(const Failure& cause) const;
  void note_exit(Worker& worker, const WorkerExited& event);

  // decide_checkpoint.cpp
  void drop_replaced(const PublishedCheckpoint& fresh);
  PublishedCheckpoint* find_kept(int64_t report);
  void warn_of_score(const PublishedCheckpoint& fresh);
  void apply_retention();

  // decide_validation.cpp
  void take_over_checkpoints(const RunState& earlier);
  void queue_validation(int64_t report, const ValidationTaskConfig& task);
  void start_validations();
  Validation* find_validation(int64_t report);
  Validation* find_validation(int64_t report, WorkerId worker);
  void settle_validation(int64_t report, CheckpointStatus status, const Json& metrics);
  bool waits_for_validations() const;

  // decide_data.cpp
  void start_data_processes(const std::vector<int64_t>& workers_on_node);
  void start_data_process(int64_t node);

  // Seconds that the others of the group have to end.
  void blame_node();
  double grace_after_failure() const;

  // decide_ending.cpp
  void shut_down(FinalState final_state, double grace_s, const std::string& reason);
  void end_group(State next, double grace_s, const std::string& reason);
  void end_worker(const Worker& worker, double grace_s, const std::string& reason);
  void mark_gone(Worker& worker);
  void when_gone();
  void next_try();
  void give_up_waiting();
  void close_group();
  void finish();
  void finish_if_complete();

  RunState& state_;
  Time now_;
  Actions actions_;
};

}  // namespace paceline::policy
