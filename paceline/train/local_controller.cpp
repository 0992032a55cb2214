#include <unistd.h>

#include <algorithm>
#include <thread>

#include "paceline/controller/failure_text.h"
#include "paceline/controller/survey.h"
#include "paceline/core/error.h"
#include "paceline/storage/local.h"
#include "paceline/train/local_controller_internal.h"
#include "paceline/train/run_folder_internal.h"

namespace paceline::train {

using namespace controller;

namespace {

RunOptions options_of(const RunRequest& request, int64_t world_size) {
  return {.num_workers = world_size,
          .max_failures = 0,
          .controller_failure_limit = 0,
          .checkpoint_config = request.run_config.checkpoint_config};
}

}  // namespace

LocalController::LocalController(RunRequest request, int64_t world_size)
    : request_(std::move(request)),
      lock_(lock_run_folder(request_.run_folder)),
      terminal_(track::make_terminal(stderr)),
      store_(request_.run_folder),
      finished_(static_cast<size_t>(world_size), false) {
  throw_if_error(storage::make_folders(request_.run_folder + "/logs"));
  log_.emplace(
      request_.run_folder + "/logs/controller.log",
      [this](LogLevel level, const std::string& line) { terminal_->log(level, line); },
      log_level(request_.run_config.log_level));
  state_ = value_or_throw(replay(request_.run_folder)).value_or(RunState{});
  RunOpened opened = value_or_throw(survey(request_, store_, state_));
  opened.options = options_of(request_, world_size);
  journal_.emplace(value_or_throw(Journal::open(request_.run_folder)));
  report_log_.emplace(value_or_throw(track::HistoryWriter::open(request_.run_folder)));
  note_earlier(request_, state_, opened, *log_);
  if (request_.run_config.failure_config.max_failures != 0) {
    log_->warning("a train loop in the calling process is not tried again: FailureConfig.max_failures is ignored");
  }
  feed(opened);
  throw_if_error(journal_->sync());
  const auto cores = static_cast<int64_t>(std::max(1u, std::thread::hardware_concurrency()));
  feed(NodeJoined{{.name = opened.host, .host = opened.host, .pid = ::getpid(), .cores = cores}});
  for (const WorkerId id : std::vector(workers_)) feed(WorkerJoined{id, id == workers_.front() ? ::getpid() : 0});
}

LocalController::~LocalController() = default;

// Actions may cause events, which wait until the decision at hand is executed.
void LocalController::feed(Event event) {
  events_.push_back(std::move(event));
  if (applying_) return;
  applying_ = true;
  try {
    while (!events_.empty()) {
      const Event next = std::move(events_.front());
      events_.pop_front();
      if (std::holds_alternative<RunOpened>(next) || !is_terminal(state_.state)) apply(next);
    }
  } catch (...) {
    applying_ = false;
    throw;
  }
  applying_ = false;
}

void LocalController::apply(const Event& event) {
  const Time now = journal_time(clock_.now());
  throw_if_error(journal_->append(event, state_.epoch, now));
  for (const Action& action : decide(state_, event, now)) {
    std::visit([this](const auto& kind) { execute(kind); }, action);
  }
}

LocalAnswer LocalController::meet(std::vector<LocalWord> words) {
  published_.clear();
  for (size_t rank = 0; rank < words.size(); ++rank) {
    const LocalWord& word = words[rank];
    if (word.report) {
      auto completed = book_->add(static_cast<int64_t>(rank), *word.report);
      if (!completed.ok()) {
        feed(ReportRefused{state_.attempt, state_.generation, word.report->index, completed.status().message()});
        break;
      }
      for (GroupReport& group : *completed) {
        const int64_t number = group.report;
        const bool has_files = !group.parts.empty();
        report_log_->add(std::move(group), state_.attempt, clock_.now());
        if (has_files) feed(CheckpointReady{number});
      }
    } else if (word.finished && !finished_[rank]) {
      finished_[rank] = true;
      const arrow::Status counts = book_->finish(static_cast<int64_t>(rank));
      if (!counts.ok()) feed(ReportRefused{state_.attempt, state_.generation, 0, counts.message()});
      feed(WorkerFinished{worker(rank), word.finished->reports, word.finished->return_value});
    }
  }
  write_reports();
  LocalAnswer answer{.checkpoint = published_};
  if (!stop_reason_.empty()) {
    answer.stop = stop_reason_;
    if (state_.final_state == State::errored) answer.error = error_text(state_.failures, state_.world_size);
  }
  answer.ended = std::ranges::find(finished_, false) == finished_.end();
  return answer;
}

RunOutcome LocalController::end(const std::optional<rpc::Failed>& failed, bool interrupted) {
  if (interrupted) feed(StopRequested{"the driver was interrupted"});
  // Whatever it was a consequence of, nobody else will say what the cause is.
  if (failed) feed(WorkerFailed{worker(0), failed->kind, failed->text, failed->frames, failed->stopped, false});
  for (const WorkerId id : workers_) {
    WorkerExited exited{.worker = id};
    exited.last_report = book_ ? book_->last_report(0) : 0;
    feed(exited);
  }
  throw_if_error(journal_->sync());
  const arrow::Status collected = store_.collect_leftovers();
  if (!collected.ok()) log_->warning("unpublished files could not be deleted: " + collected.message());
  terminal_->finish();
  RunOutcome outcome{.error = state_.error, .worker_errors = state_.worker_errors, .return_value = state_.return_value};
  if (state_.state == State::errored) outcome.state = FinalState::errored;
  if (state_.state == State::aborted) outcome.state = FinalState::aborted;
  return outcome;
}

WorkerId LocalController::worker(size_t rank) const {
  return workers_.at(rank);
}

std::string LocalController::checkpoint_path(int64_t report) const {
  return request_.run_folder + "/" + checkpoint::checkpoint_name(report);
}

RunContext LocalController::context() const {
  return {.name = request_.run_config.name.value_or(""),
          .path = request_.run_folder,
          .attempt = state_.attempt.value,
          .world_size = state_.world_size};
}

void LocalController::write_reports() {
  for (const ReportLog::Entry& entry : value_or_throw(report_log_->write())) {
    if (entry.group.metrics.front()) terminal_->metrics(*entry.group.metrics.front());
    if (!entry.group.complete) continue;
    std::vector<Metrics> metrics;
    for (const std::optional<Json>& rank : entry.group.metrics) metrics.emplace_back(rank.value_or(Json::object()));
    std::optional<Checkpoint> checkpoint;
    if (!entry.checkpoint.empty()) checkpoint = CheckpointAccess::published(checkpoint_path(entry.group.report));
    call_back("after_report", [&](UserCallback& callback) {
      callback.after_report(context(), metrics, checkpoint ? &*checkpoint : nullptr);
    });
  }
  throw_if_error(report_log_->flush());
}

template <class Call>
void LocalController::call_back(const char* name, const Call& call) {
  for (const std::shared_ptr<UserCallback>& callback : request_.run_config.callbacks) {
    try {
      call(*callback);
    } catch (const std::exception& error) {
      feed(CallbackFailed{name, error.what()});
    } catch (...) {
      feed(CallbackFailed{name, "an exception of unknown type"});
    }
  }
}

void LocalController::execute(const EnterState& action) {
  log_->debug("state: " + to_string(action.from) + " -> " + to_string(action.to));
  terminal_->state(to_string(action.to));
}

void LocalController::execute(const AssignWorkers& action) {
  book_.emplace(state_.world_size, action.first_report);
  checkpoint_ =
      action.checkpoint != 0 ? checkpoint_path(action.checkpoint) : request_.resume_from_checkpoint.value_or("");
}

void LocalController::execute(const EndWorker& action) {
  if (std::ranges::find(finished_, false) == finished_.end()) return;
  stop_reason_ = action.reason;
}

void LocalController::execute(const CloseGroup&) {
  if (!book_) return;
  for (GroupReport& rest : book_->close()) report_log_->add(std::move(rest), state_.attempt, clock_.now());
  book_.reset();
  write_reports();
}

void LocalController::execute(const PublishCheckpoint& action) {
  const ReportLog::Entry* entry = report_log_->find(action.report);
  if (entry == nullptr) return;
  checkpoint::Manifest about{.report = action.report, .attempt = entry->attempt.value};
  about.world_size = state_.world_size;
  about.time = entry->time;
  about.metrics = entry->group.metrics.front().value_or(Json::object());
  const auto published = store_.publish(entry->group.parts, about);
  if (!published.ok()) {
    report_log_->settle(action.report, "");
    return feed(PublishFailed{action.report, published.status().message()});
  }
  const std::string name = checkpoint::checkpoint_name(action.report);
  report_log_->settle(action.report, name);
  terminal_->checkpoint(name);
  feed(CheckpointPublished{{action.report, published->metrics, published->time}});
}

void LocalController::execute(const DeleteCheckpoint& action) {
  const arrow::Status removed = store_.remove(action.report);
  if (removed.ok()) return;
  log_->warning("the checkpoint of report " + std::to_string(action.report) +
                " could not be deleted: " + removed.message());
}

void LocalController::execute(const TellCallbacks& action) {
  call_back("after_exception", [&](UserCallback& callback) { callback.after_exception(context(), action.errors); });
}

void LocalController::execute(const Finish&) {
  report_log_->settle_all();
  write_reports();
}

}  // namespace paceline::train
