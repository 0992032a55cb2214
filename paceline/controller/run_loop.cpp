#include <unistd.h>

#include <algorithm>

#include "paceline/controller/run_loop_internal.h"
#include "paceline/controller/tracking.h"
#include "paceline/controller/worker_process.h"

namespace paceline::controller {

using namespace policy;
namespace {

// History rows are on disk a second after they came, at the latest.
constexpr std::chrono::seconds kFlushDelay{1};

// Somebody who sits before a terminal may want to look; a batch job shall go on.
bool fails_on_hang(const DebugConfig& config) {
  return config.hang_action == "fail" || (config.hang_action == "auto" && ::isatty(STDERR_FILENO) == 0);
}

}  // namespace

RunLoop::RunLoop(RunParts parts, run::Journal journal, ReportLog report_log, RunState earlier)
    : parts_(parts),
      journal_(std::move(journal)),
      report_log_(std::move(report_log)),
      state_(std::move(earlier)),
      callbacks_(parts_.request, parts_.log, [this](Event event) { feed(std::move(event)); }),
      environment_(worker_environment(parts_.request.run_config)),
      hang_watch_(parts.request.run_config.debug_config),
      fails_on_hang_(fails_on_hang(parts.request.run_config.debug_config)) {}

arrow::Status RunLoop::open(const RunOpened& opened) {
  const Time now = journal_time(parts_.clock.now());
  ARROW_RETURN_NOT_OK(journal_.append(opened, opened.epoch, now));
  ARROW_RETURN_NOT_OK(journal_.sync());
  parts_.recorder.notice();
  highest_report_ = opened.last_report;
  for (const Action& action : decide(state_, opened, now)) {
    std::visit([this](const auto& kind) { execute(kind); }, action);
  }
  return arrow::Status::OK();
}

RunOutcome RunLoop::run(arrow::Result<std::vector<std::unique_ptr<rpc::Channel>>> agents) {
  if (agents.ok()) {
    agents_ = *std::move(agents);
  } else {
    feed(NodeLost{.error = "no agent could be launched: " + agents.status().message()});
  }
  for (size_t node = 0; node < agents_.size(); ++node) {
    Inbox& inbox = parts_.inbox;
    agents_[node]->start(
        {.on_message = [&inbox, node](rpc::Envelope message) { inbox.push(FromAgent{node, std::move(message)}); },
         .on_close = [&inbox, node](const arrow::Status& status) { inbox.push(AgentGone{node, status}); }});
    // An agent that is gone already says so by its channel's end.
    [[maybe_unused]] const arrow::Status sent = agents_[node]->send(rpc::pack(parts_.leftovers));
  }
  while (!is_terminal(state_.state)) {
    parts_.inbox.wait(parts_.stop.descriptor(), next_deadline(), parts_.clock);
    for (uint64_t count = take_count(parts_.stop.descriptor()); count > 0; --count) {
      feed(StopRequested{"the driver was interrupted"});
    }
    for (Incoming& incoming : parts_.inbox.take()) {
      std::visit([this](auto& kind) { receive(kind); }, incoming);
    }
    meet_deadlines();
    answer_checkpoints(parts_.clock.now());
  }
  agents_.clear();
  parts_.trackers.finish(tracked_end(state_, parts_.clock.now()), report_log_.history());
  return outcome();
}

// Actions may cause events, which wait until the decision at hand is executed.
void RunLoop::feed(Event event) {
  events_.push_back(std::move(event));
  if (applying_) return;
  applying_ = true;
  while (!events_.empty()) {
    const Event next = std::move(events_.front());
    events_.pop_front();
    if (!is_terminal(state_.state)) apply(next);
  }
  applying_ = false;
}

void RunLoop::apply(const Event& event) {
  const Time now = journal_time(parts_.clock.now());
  check(journal_.append(event, state_.epoch, now));
  parts_.recorder.notice();
  const Actions actions = decide(state_, event, now);
  const bool final = is_terminal(state_.state);
  if (final) check(journal_.sync());
  for (const Action& action : actions) {
    std::visit([this](const auto& kind) { execute(kind); }, action);
  }
  show_workers();
}

void RunLoop::show_workers() {
  const std::pair now(state_.state == State::scheduling ? state_.joined : state_.live, state_.world_size);
  if (now == shown_workers_) return;
  shown_workers_ = now;
  parts_.terminal.workers(now.first, now.second);
}

// The first failure to write the run folder ends the run; more of them say nothing new.
void RunLoop::check(const arrow::Status& written) {
  if (written.ok() || storage_failed_) return;
  storage_failed_ = true;
  feed(StorageFailed{written.message()});
}

std::optional<Time> RunLoop::next_deadline() const {
  std::optional<Time> next;
  const auto consider = [&next](std::optional<Time> time) {
    if (time && (!next || *time < *next)) next = time;
  };
  if (timer_) consider(timer_->at);
  if (const auto limit = time_limit(state_)) consider(limit->at);
  consider(table_.next_deadline());
  if (is_watching()) consider(next_watch_);
  for (const auto& [id, process] : validations_) consider(process.deadline);
  for (const CheckpointsQuestion& question : checkpoints_questions_) consider(question.deadline);
  if (report_log_.unflushed_since()) consider(*report_log_.unflushed_since() + kFlushDelay);
  return next;
}

void RunLoop::meet_deadlines() {
  const Time now = parts_.clock.now();
  if (timer_ && timer_->at <= now) {
    const int64_t turn = timer_->turn;
    timer_.reset();
    feed(TimerDue{turn, highest_report_});
  }
  std::vector<ValidationOverdue> overdue;
  for (auto& [id, process] : validations_) {
    if (!process.deadline || *process.deadline > now) continue;
    process.deadline.reset();
    overdue.push_back({process.report, id, ""});
  }
  for (const ValidationOverdue& event : overdue) feed(event);
  if (const auto limit = time_limit(state_); limit && limit->at <= now) feed(StopRequested{limit->reason, true});
  send_replies(table_.expire(now));
  watch_if_due(now);
  const std::optional<Time> unflushed = report_log_.unflushed_since();
  if (unflushed && *unflushed + kFlushDelay <= now) {
    check(report_log_.flush());
    parts_.recorder.notice();
  }
  parts_.trackers.advance(report_log_.history());
}

void RunLoop::write_reports() {
  arrow::Result<std::vector<ReportLog::Entry>> written = report_log_.write();
  if (!written.ok()) return check(written.status());
  parts_.trackers.advance(report_log_.history());
  for (const ReportLog::Entry& entry : *written) {
    live_.last_report = entry.group.report;
    if (!entry.group.shown().empty() && entry.group.shown()[0]) {
      live_.metrics = *entry.group.shown()[0];
      parts_.terminal.metrics(live_.metrics);
    }
    const std::string checkpoint =
        entry.checkpoint.empty() ? "" : checkpoint_location(parts_.request, entry.checkpoint);
    if (entry.group.complete) callbacks_.reported(state_, entry.group, checkpoint);
  }
}

void RunLoop::execute(const TellCallbacks& action) {
  callbacks_.failed(state_, action);
}

RunOutcome RunLoop::outcome() const {
  RunOutcome outcome{.error = state_.error, .worker_errors = state_.worker_errors, .return_value = state_.return_value};
  outcome.worker_errors.erase(-1);
  const auto first = std::ranges::find_if(state_.failures, [](const Failure& failure) { return !failure.collateral; });
  if (first != state_.failures.end()) outcome.first_failure = first->status;
  if (state_.state == State::errored) outcome.state = FinalState::errored;
  if (state_.state == State::aborted) outcome.state = FinalState::aborted;
  return outcome;
}

}  // namespace paceline::controller
