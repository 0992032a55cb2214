#include "paceline/policy/simulator.h"

namespace paceline::policy {

RunOptions random_options(std::mt19937_64& random) {
  RunOptions options;
  options.num_workers = 1 + static_cast<int64_t>(random() % 5);
  options.nodes = 1 + static_cast<int64_t>(random() % 3);
  options.nodes_may_come = random() % 2 == 0;
  options.placement_strategy = random() % 2 == 0 ? "PACK" : "SPREAD";
  // Of nodes with four cores: some runs wait for a node after a loss, others go on with those that are left.
  options.cpus_per_worker = static_cast<double>(random() % 3);
  options.nodes = std::max(options.nodes, (options.num_workers + 1) / 2);
  options.max_failures = static_cast<int64_t>(random() % 5) - 1;
  options.controller_failure_limit = static_cast<int64_t>(random() % 5) - 1;
  options.max_preemption_failures = static_cast<int64_t>(random() % 3) - 1;
  if (random() % 2 == 0) options.checkpoint_config.num_to_keep = 1 + static_cast<int64_t>(random() % 3);
  if (random() % 2 == 0) options.checkpoint_config.checkpoint_score_attribute = "score";
  options.max_validations = static_cast<int64_t>(random() % 3);
  options.has_datasets = options.num_workers % 2 == 0;
  return options;
}

Faults random_faults(std::mt19937_64& random) {
  const auto some = [&random](double most) {
    return random() % 2 == 0 ? 0.0 : most * static_cast<double>(random() % 100) / 100;
  };
  return {.start_failed = some(0.2),
          .exit_before_join = some(0.3),
          .hang_before_join = some(0.1),
          .exception_before_join = some(0.1),
          .exit_in_launch = some(0.2),
          .exit_in_loop = some(0.1),
          .exception = some(0.1),
          .silence = some(0.05),
          .returns_early = some(0.05),
          .publish = some(0.2),
          .callback = some(0.2),
          .unkillable = some(0.1),
          .late_event = some(0.5),
          .stop = some(0.5),
          .node_lost = some(0.2),
          .preemption = some(0.5),
          .resize = some(0.5),
          .validation = some(1),
          .validation_failed = some(0.3),
          .validation_hangs = some(0.3),
          .data_process_ends = some(0.5)};
}

Simulator::Simulator(uint64_t seed, RunOptions options, Faults faults, bool fold)
    : random_(seed), options_(std::move(options)), faults_(faults), fold_(fold) {
  open({1}, {}, 0);
  schedule_disturbances();
}

void Simulator::open(ControllerEpoch epoch, PublishedCheckpoints checkpoints, int64_t last_report) {
  after(0, [this, event = RunOpened{.epoch = epoch,
                                    .name = "simulated",
                                    .options = options_,
                                    .checkpoints = std::move(checkpoints),
                                    .last_report = last_report}] { feed(event); });
  for (int64_t i = 0; i < options_.nodes; ++i) {
    after(seconds(0.001, 0.01), [this, i] {
      feed(NodeJoined{{.name = "node" + std::to_string(i), .host = "host_" + std::to_string(i), .cores = 4}});
    });
  }
}

// The workers end with their driver. What was being published may have been, or not; of the history's last rows, which
// are on disk a second later, some may be there.
void Simulator::take_over() {
  dead_ = false;
  queue_ = {};
  ++timer_;
  alive_.clear();
  processes_.clear();
  validating_.clear();
  book_.reset();
  publisher_free_ = now_;
  for (const int64_t report : std::exchange(publishing_, {})) {
    if (!roll(0.5)) break;  // in order
    published_.insert(report);
  }
  std::erase_if(to_validate_, [this](int64_t report) { return !published_.contains(report); });
  PublishedCheckpoints checkpoints;
  for (const int64_t report : published_)
    checkpoints.push_back({.report = report, .metrics = {{"score", seconds(0, 1)}}});
  const int64_t least = published_.empty() ? 0 : *published_.rbegin();
  // What nobody but the dead knew of may be used again.
  highest_report_ = std::max(least, complete_reports_ - static_cast<int64_t>(random_() % 3));
  complete_reports_ = highest_report_;
  state_ = folded_;
  open(state_.epoch.next(), std::move(checkpoints), highest_report_);
}

void Simulator::play(int64_t steps) {
  while (!finished_ && !queue_.empty() && events_ < steps) {
    Due due = queue_.top();
    queue_.pop();
    now_ = journal_time(due.at);
    due.run();
    if (dead_) take_over();
  }
}

void Simulator::after(double seconds, std::function<void()> run) {
  queue_.push(
      {now_ + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds)), ++order_, std::move(run)});
}

bool Simulator::roll(double probability) {
  return probability > 0 && std::uniform_real_distribution<>(0, 1)(random_) < probability;
}

double Simulator::seconds(double low, double high) {
  return std::uniform_real_distribution<>(low, high)(random_);
}

void Simulator::require(bool holds, const std::string& what) {
  if (!holds) violations_.push_back(what);
}

void Simulator::schedule_disturbances() {
  if (roll(faults_.stop)) {
    const double first = seconds(0, 3);
    const int times = 1 + static_cast<int>(random_() % 4);
    for (int i = 0; i < times; ++i)
      after(first + seconds(0, 1),
            [this] { feed(StopRequested{.reason = "simulated", .cause = StopCause::command_line}); });
  }
  const int64_t losses = options_.nodes_may_come ? 3 : 1;
  for (int64_t i = 0; i < losses; ++i) {
    if (roll(faults_.node_lost)) after(seconds(0, 4), [this] { lose_node(); });
  }
  if (roll(faults_.preemption)) {
    after(seconds(0, 3), [this] { feed(PreemptionNoticed{{"node0"}, seconds(0, 2)}); });
  }
  if (roll(faults_.resize)) {
    after(seconds(0, 3), [this] { feed(ResizeWanted{1 + static_cast<int64_t>(random_() % 6), "simulated"}); });
  }
}

void Simulator::lose_node() {
  std::vector<size_t> there;
  for (size_t node = 0; node < state_.nodes.size(); ++node) {
    if (!state_.nodes[node].lost) there.push_back(node);
  }
  if (there.empty()) return;
  const size_t lost = there[random_() % there.size()];
  for (const WorkerId id : std::set<WorkerId>(alive_)) {
    if (static_cast<size_t>(state_.workers.at(id).node) != lost) continue;
    alive_.erase(id);
    processes_.at(id).alive = false;
  }
  for (const Validation& one : state_.validations) {
    if (one.worker.value > 0 && static_cast<size_t>(one.node) == lost) validating_.erase(one.worker);
  }
  feed(NodeLost{state_.nodes[lost].name, "simulated", highest_report_});
  if (!options_.nodes_may_come || roll(0.2)) return;
  after(seconds(0, 10), [this, name = "node_" + std::to_string(++order_)] {
    feed(NodeJoined{{.name = name, .host = "host_" + std::to_string(random_() % 3), .cores = 4}});
  });
}

void Simulator::feed(const Event& event) {
  if (finished_ || dead_) return;
  ++events_;
  const Actions actions = decide(state_, event, now_);
  if (watch_) watch_(event, state_, actions, now_);
  if (fold_) check_fold(event);
  dead_ = events_ == takeover_;
  if (dead_) return;
  for (const Action& action : actions) {
    std::visit([this](const auto& kind) { execute(kind); }, action);
  }
}

void Simulator::check_fold(const Event& event) {
  const Json stored = decode_json(encode_json(encode_event(event))).ValueOrDie();
  decide(folded_, decode_event(stored).ValueOrDie(), journal_time(now_));
  require(folded_ == state_, "the state is not what the journal's events fold to");
}

void Simulator::execute(const EnterState& action) {
  require(action.to == State::initializing || is_legal(action.from, action.to),
          "illegal transition from " + to_string(action.from) + " to " + to_string(action.to));
  require(!action.reason.empty(), "a transition has no reason");
  ++entered_[action.to];
  transitions_.insert({action.from, action.to});
  if (action.to == State::scheduling) starting_group_ = true;
  if (action.from == State::running && action.to == State::restarting) check_awaited();
}

// What a rank that has failed had reported is not given up while all who have not made it may still do so in time.
void Simulator::check_awaited() {
  if (state_.failures.empty()) return;  // nothing was left of the group: the next is started already
  bool may_come = true;
  for (const Failure& failure : state_.failures) {
    may_come &= failure.kind == FailureKind::exception || failure.kind == FailureKind::exit;
  }
  const Failure& first = state_.failures.front();
  if (!may_come || first.rank < 0 || book_ == nullptr) return;
  const AwaitedReport awaited = book_->awaited_of(first.rank, /*is_gone=*/false);
  const bool may_be_all = awaited.has_checkpoint || first.kind == FailureKind::exception;
  const double patience = may_be_all ? options_.stop_grace_s : kCauseSeconds;
  for (const auto& [id, worker] : state_.workers) {
    may_come &= worker.stage == WorkerStage::training || book_->last_report(worker.rank) >= awaited.report;
  }
  require(awaited.report == 0 || !may_come || to_seconds(now_) >= first.time + patience - 1e-3,
          "a report is given up that all could make");
}

void Simulator::execute(const StartWorker& action) {
  if (starting_group_) {
    starting_group_ = false;
    ++group_;
    require(alive_.empty(), "a group starts while processes of an earlier one live");
    processes_.clear();
  }
  require(used_ids_.insert(action.worker).second, "a worker's id is used twice");
  Process& process = processes_[action.worker];
  process = {.id = action.worker, .group = group_};
  alive_.insert(action.worker);
  const WorkerId id = action.worker;
  if (faulty() && roll(faults_.start_failed)) {
    alive_.erase(id);
    process.alive = false;
    return after(seconds(0, 0.01), [this, id] { feed(StartFailed{id, "simulated"}); });
  }
  after(seconds(0.001, 0.01), [this, id] { feed(WorkerStarted{id, id.value}); });
  if (faulty() && roll(faults_.hang_before_join)) return;
  const bool dies = faulty() && roll(faults_.exit_before_join);
  after(seconds(0.02, 0.3), [this, id, dies] {
    const auto found = processes_.find(id);
    if (found == processes_.end() || !found->second.alive) return;
    if (faulty() && roll(faults_.exception_before_join)) {
      feed(WorkerFailed{.worker = id, .exception = "UsageError", .text = "no such train loop"});
      return exit(processes_.at(id), {.exit_code = 1}, Phase::starting);
    }
    if (dies) return exit(found->second, {.exit_code = static_cast<int>(random_() % 3)}, Phase::starting);
    found->second.joined = true;
    feed(WorkerJoined{id, id.value});
  });
}

void Simulator::execute(const AssignWorkers& action) {
  require(action.first_report > highest_report_, "a report's number is used twice");
  require(used_places_.emplace(action.attempt, action.generation).second, "an attempt's number is used twice");
  require(action.checkpoint == (published_.empty() ? 0 : *published_.rbegin()),
          "an attempt does not start from the latest checkpoint");
  book_ = std::make_unique<ReportBook>(state_.world_size, action.first_report);
  for (auto& [id, process] : processes_) {
    require(process.joined && process.alive, "a worker that is not there is given a rank");
    process.rank = state_.workers.at(id).rank;
    after(seconds(0.001, 0.1), [this, id = id] { step(id); });
  }
  if (roll(faults_.preemption)) after(0.001, [this] { feed(PreemptionNoticed{{"node0"}, seconds(0, 2)}); });
}

// One turn of a worker's train loop.
void Simulator::step(WorkerId id) {
  const auto found = processes_.find(id);
  if (found == processes_.end() || !found->second.alive || found->second.silent) return;
  Process& process = found->second;
  if (faulty()) {
    if (process.reports == 0 && roll(faults_.exit_in_launch)) return exit(process, {.signal = 9}, Phase::starting);
    if (roll(faults_.exit_in_loop)) {
      fail_peers(process);
      return exit(process, {.exit_code = static_cast<int>(random_() % 2)}, Phase::training);
    }
    if (roll(faults_.exception)) {
      fail_peers(process);
      const AwaitedReport awaited = awaited_of(process, /*is_gone=*/false);
      feed(WorkerFailed{.worker = id,
                        .exception = "std::runtime_error",
                        .text = "simulated",
                        .awaited_report = awaited.report,
                        .awaits_checkpoint = awaited.has_checkpoint});
      return after(seconds(0, 0.05), [this, id] {
        if (alive_.contains(id)) exit(processes_.at(id), {.exit_code = 1}, Phase::unknown);
      });
    }
    if (roll(faults_.silence)) {
      process.silent = true;
      return after(30, [this, id] {
        if (alive_.contains(id)) feed(WorkerSilent{.worker = id, .silent_s = 30});
      });
    }
    if (roll(faults_.returns_early)) return leave(process);
  }
  if (process.reports == kReports) return leave(process);
  report(process);
  after(seconds(0.01, 0.3), [this, id] { step(id); });
}

void Simulator::report(Process& process) {
  rpc::Report report{.index = state_.first_report + process.reports};
  report.has_checkpoint = (process.reports + 1) % kCheckpointEvery == 0;
  if (report.has_checkpoint && process.rank == 0) report.staged = "stage";
  ++process.reports;
  process.last_report = report.index;
  highest_report_ = std::max(highest_report_, report.index);
  const auto completed = book_->add(process.rank, report);
  if (!completed.ok()) {
    return feed(ReportRefused{state_.attempt, state_.generation, report.index, completed.status().message()});
  }
  for (const GroupReport& group : *completed) complete_reports_ = std::max(complete_reports_, group.report);
  for (const ReadyCheckpoint& checkpoint : book_->take_ready()) {
    CheckpointReady ready{.report = checkpoint.report};
    if (options_.max_validations > 0 && roll(faults_.validation)) {
      to_validate_.insert(checkpoint.report);
      ready.validation = ValidationTaskConfig{.timeout_s = 2.0};
    }
    feed(ready);
  }
  end_wait_for_report();
}

AwaitedReport Simulator::awaited_of(const Process& process, bool is_gone) const {
  return book_ != nullptr && process.rank >= 0 ? book_->awaited_of(process.rank, is_gone, state_.awaited_report)
                                               : AwaitedReport{};
}

void Simulator::end_wait_for_report() {
  const int64_t awaited = state_.judgement_pending ? state_.awaited_report : 0;
  if (awaited > 0 && book_ != nullptr && book_->is_settled(awaited)) feed(TimerDue{state_.turn, highest_report_});
}

void Simulator::leave(Process& process) {
  process.done = true;
  process.silent = true;  // waits for its end
  const arrow::Status counts = book_->finish(process.rank);
  if (!counts.ok()) feed(ReportRefused{state_.attempt, state_.generation, 0, counts.message()});
  end_wait_for_report();
  feed(WorkerFinished{process.id, process.reports, process.rank});
}

void Simulator::exit(Process& process, ExitStatus status, Phase phase) {
  process.alive = false;
  alive_.erase(process.id);
  const WorkerId id = process.id;
  const AwaitedReport awaited = awaited_of(process, /*is_gone=*/true);
  const WorkerExited event{.worker = id,
                           .end = {.status = status, .last_lines = {"last"}, .phase = phase},
                           .last_report = process.last_report,
                           .awaited_report = awaited.report,
                           .awaits_checkpoint = awaited.has_checkpoint};
  if (roll(faults_.late_event)) {
    after(seconds(0, 2), [this, id, event] {
      const RunState before = state_;
      feed(event);
      feed(WorkerJoined{id, 1});
      feed(WorkerFinished{id});
      feed(WorkerFailed{.worker = id, .text = "late"});
      feed(WorkerSilent{.worker = id});
      require(state_ == before, "a late event changed the state");
    });
  }
  feed(event);
}

// The others lose their connection to it.
void Simulator::fail_peers(const Process& process) {
  for (const auto& [id, peer] : processes_) {
    if (id == process.id || !peer.alive || peer.done || peer.silent || !roll(0.5)) continue;
    after(seconds(0, 0.1), [this, id = id] {
      const auto found = processes_.find(id);
      if (found == processes_.end() || !found->second.alive) return;
      const AwaitedReport awaited = awaited_of(found->second, /*is_gone=*/false);
      feed(WorkerFailed{.worker = id,
                        .exception = "CollectiveError",
                        .text = "peer",
                        .collateral = true,
                        .awaited_report = awaited.report,
                        .awaits_checkpoint = awaited.has_checkpoint});
      if (alive_.contains(id)) exit(found->second, {.exit_code = 1}, Phase::collective);
    });
  }
}

void Simulator::execute(const EndWorker& action) {
  require(processes_.contains(action.worker), "a worker of an earlier group is ended");
  require(!action.reason.empty(), "a worker is ended without a reason");
  if (roll(faults_.unkillable)) {
    alive_.erase(action.worker);  // it hangs in the kernel: the run must go on without it
    processes_.at(action.worker).alive = false;
    return;
  }
  const WorkerId id = action.worker;
  after(seconds(0, action.grace_s + 0.01), [this, id, grace = action.grace_s] {
    if (!alive_.contains(id)) return;
    Process& process = processes_.at(id);
    const bool clean = grace > 0 && !process.silent && roll(0.5);
    exit(process, clean ? ExitStatus{} : ExitStatus{.signal = 9, .ended_by_paceline = true}, Phase::unknown);
  });
}

void Simulator::execute(const CloseGroup&) {
  require(alive_.empty(), "a group is closed while its processes live");
  book_.reset();
}

void Simulator::execute(const PublishCheckpoint& action) {
  // One after another, in the order asked for.
  publishing_.insert(action.report);
  publisher_free_ = std::max(publisher_free_, now_) + std::chrono::milliseconds(1 + random_() % 200);
  const double delay = std::chrono::duration<double>(publisher_free_ - now_).count();
  after(delay, [this, report = action.report] {
    publishing_.erase(report);
    if (faulty() && roll(faults_.publish)) {
      to_validate_.erase(report);
      return feed(PublishFailed{report, "no space left on device"});
    }
    if (finished_) return;
    published_.insert(report);
    feed(CheckpointPublished{{.report = report, .metrics = {{"score", seconds(0, 1)}}}});
    require(finished_ || state_.checkpoints.back().report == *published_.rbegin(), "the latest is not the last");
  });
}

void Simulator::execute(const DeleteCheckpoint& action) {
  require(published_.contains(action.report), "a checkpoint is deleted that is not there");
  require(action.report != *published_.rbegin(), "the latest checkpoint is deleted");
  require(!to_validate_.contains(action.report), "a checkpoint is deleted that is to be validated");
  published_.erase(action.report);
}

void Simulator::execute(const TellCommitted& action) {
  require(published_.contains(action.report), "a checkpoint is announced that is not published");
}

void Simulator::execute(const StartDataProcess& action) {
  require(options_.has_datasets, "a data process is started for a run without datasets");
  require(used_ids_.insert(action.worker).second, "a process's id is used twice");
  require(state_.data_processes.at(static_cast<size_t>(action.node)).worker == action.worker,
          "a node has two data processes");
  if (!faulty() || !roll(faults_.data_process_ends)) return;
  after(seconds(0.01, 5), [this, id = action.worker] { feed(DataProcessEnded{id, "was killed"}); });
}

void Simulator::execute(const StartValidation& action) {
  require(published_.contains(action.report), "a checkpoint is validated that is not published");
  require(to_validate_.contains(action.report), "a checkpoint is validated that nobody asked for, or again");
  require(used_ids_.insert(action.worker).second, "a process's id is used twice");
  validating_[action.worker] = action.report;
  int64_t running = 0;
  for (const Validation& one : state_.validations) running += one.worker.value > 0 ? 1 : 0;
  require(running <= options_.max_validations, "more validations run than allowed");
  const ValidationOverdue overdue{action.report, action.worker, ""};
  after(action.task.timeout_s.value(), [this, overdue] {
    if (!validating_.contains(overdue.worker)) return;
    if (to_validate_.erase(overdue.report) > 0) ++ended_[CheckpointStatus::validation_timeout];
    feed(overdue);
  });
  if (roll(faults_.validation_hangs)) return;
  ValidationEnded ended{.report = action.report, .worker = action.worker, .metrics = {{"score", seconds(0, 1)}}};
  if (roll(faults_.validation_failed)) ended.error = "simulated";
  after(seconds(0.01, 1), [this, ended] { end_validation(ended); });
}

void Simulator::end_validation(ValidationEnded event) {
  if (validating_.erase(event.worker) == 0) return;
  const bool failed = !event.error.empty();
  if (to_validate_.erase(event.report) > 0) {
    ++ended_[failed ? CheckpointStatus::validation_failed : CheckpointStatus::validated];
  }
  feed(event);
}

void Simulator::execute(const EndValidation& action) {
  require(validating_.contains(action.worker), "a validation is ended that does not run");
  after(seconds(0, 0.1), [this, worker = action.worker] {
    if (validating_.contains(worker)) end_validation({validating_.at(worker), worker, {}, "killed"});
  });
}

void Simulator::execute(const SetTimer& action) {
  const int64_t mine = ++timer_;
  after(std::chrono::duration<double>(action.at - now_).count(), [this, mine, turn = action.turn] {
    if (mine == timer_) feed(TimerDue{turn, highest_report_});
  });
}

void Simulator::execute(const TellCallbacks& action) {
  require(!action.errors.empty(), "callbacks are told of no error");
  if (roll(faults_.callback)) after(0, [this] { feed(CallbackFailed{"after_exception", "simulated"}); });
}

void Simulator::execute(const Finish&) {
  finished_ = true;
  require(is_terminal(state_.state), "the run ends in no final state");
  require(alive_.empty(), "the run ends while processes live");
  std::set<int64_t> kept;
  for (const PublishedCheckpoint& checkpoint : state_.checkpoints) {
    kept.insert(checkpoint.report);
    const bool pending = checkpoint.status == CheckpointStatus::pending_validation;
    require(pending == to_validate_.contains(checkpoint.report), "a validation is forgotten");
  }
  if (state_.state == State::finished) require(to_validate_.empty(), "a finished run has validations left");
  require(kept == published_, "a published checkpoint is lost");
}

}  // namespace paceline::policy
