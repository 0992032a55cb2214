#include <algorithm>

#include "paceline/controller/run_loop_internal.h"
#include "paceline/controller/worker_process.h"
#include "paceline/core/type_name.h"

namespace paceline::controller {
namespace {

// History rows are on disk a second after they came, at the latest.
constexpr std::chrono::seconds kFlushDelay{1};

}  // namespace

RunLoop::RunLoop(RunParts parts, Journal journal, ReportLog report_log, RunState earlier)
    : parts_(parts),
      journal_(std::move(journal)),
      report_log_(std::move(report_log)),
      state_(std::move(earlier)),
      environment_(inherited_environment()) {}

arrow::Status RunLoop::open(const RunOpened& opened) {
  const Time now = journal_time(parts_.clock.now());
  ARROW_RETURN_NOT_OK(journal_.append(opened, opened.epoch, now));
  ARROW_RETURN_NOT_OK(journal_.sync());
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
  }
  agents_.clear();
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
  const Actions actions = decide(state_, event, now);
  const bool final = is_terminal(state_.state);
  if (final) check(journal_.sync());
  for (const Action& action : actions) {
    std::visit([this](const auto& kind) { execute(kind); }, action);
  }
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
  consider(table_.next_deadline());
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
  send_replies(table_.expire(now));
  const std::optional<Time> unflushed = report_log_.unflushed_since();
  if (unflushed && *unflushed + kFlushDelay <= now) check(report_log_.flush());
}

void RunLoop::write_reports() {
  arrow::Result<std::vector<ReportLog::Entry>> written = report_log_.write();
  if (!written.ok()) return check(written.status());
  for (const ReportLog::Entry& entry : *written) {
    live_.last_report = entry.group.report;
    if (!entry.group.shown().empty() && entry.group.shown()[0]) {
      live_.metrics = *entry.group.shown()[0];
      parts_.terminal.metrics(live_.metrics);
    }
    if (entry.group.complete) tell_callbacks(entry);
  }
}

void RunLoop::tell_callbacks(const ReportLog::Entry& entry) {
  if (parts_.request.run_config.callbacks.empty()) return;
  std::vector<Metrics> metrics;
  for (const std::optional<Json>& rank : entry.group.shown()) metrics.emplace_back(rank.value_or(Json::object()));
  std::optional<Checkpoint> checkpoint;
  if (!entry.checkpoint.empty()) checkpoint = CheckpointAccess::published(checkpoint_path(entry.group.report));
  call_back("after_report", [&](UserCallback& callback) {
    callback.after_report(context(), metrics, checkpoint ? &*checkpoint : nullptr);
  });
}

void RunLoop::execute(const TellCallbacks& action) {
  call_back("after_exception", [&](UserCallback& callback) { callback.after_exception(context(), action.errors); });
}

template <class Call>
void RunLoop::call_back(const char* name, const Call& call) {
  for (const std::shared_ptr<UserCallback>& callback : parts_.request.run_config.callbacks) {
    const std::string what = type_name(typeid(*callback)) + "::" + name;
    std::string error;
    try {
      call(*callback);
      continue;
    } catch (const std::exception& exception) {
      error = exception.what();
    } catch (...) {
      error = "an exception of unknown type";
    }
    // At the very end there is nothing left to end; the run's own result stands.
    if (is_terminal(state_.state)) parts_.log.error("callback " + what + " failed: " + error);
    feed(CallbackFailed{what, error});
  }
}

RunContext RunLoop::context() const {
  return {.name = parts_.request.run_config.name.value_or(""),
          .path = parts_.request.run_folder,
          .attempt = state_.attempt.value,
          .world_size = state_.world_size};
}

RunOutcome RunLoop::outcome() const {
  RunOutcome outcome{.error = state_.error, .worker_errors = state_.worker_errors, .return_value = state_.return_value};
  outcome.worker_errors.erase(-1);
  if (state_.state == State::errored) outcome.state = FinalState::errored;
  if (state_.state == State::aborted) outcome.state = FinalState::aborted;
  return outcome;
}

}  // namespace paceline::controller
