#include <unistd.h>

#include <algorithm>
#include <thread>

#include "paceline/checkpoint/stage.h"
#include "paceline/controller/checkpoint_list.h"
#include "paceline/controller/survey.h"
#include "paceline/controller/tracking.h"
#include "paceline/controller/worker_process.h"
#include "paceline/core/error.h"
#include "paceline/core/run_layout.h"
#include "paceline/core/type_name.h"
#include "paceline/policy/failure_text.h"
#include "paceline/storage/local/durable.h"
#include "paceline/storage/location.h"
#include "paceline/storage/storage_proof.h"
#include "paceline/train/in_process/in_process_loop_internal.h"
#include "paceline/train/run_folder_internal.h"
#include "paceline/train/worker/session_internal.h"

namespace paceline::train {

using namespace controller;
using namespace policy;

namespace {

RunOptions options_of(const RunRequest& request, int64_t world_size, bool validates) {
  return {.num_workers = world_size,
          .max_failures = 0,
          .controller_failure_limit = 0,
          .max_time = request.run_config.max_time,
          .max_validations = validates ? 1 : 0,
          .checkpoint_config = request.run_config.checkpoint_config};
}

}  // namespace

InProcessLoop::InProcessLoop(RunRequest request, int64_t world_size, Validation validation)
    : request_(std::move(request)),
      validation_(std::move(validation)),
      lock_(lock_run_folder(request_.run_folder)),
      terminal_(track::make_terminal(stderr, nullptr, request_.run_config.quiet)),
      finished_(static_cast<size_t>(world_size), false) {
  if (storage::is_uri(location_of(request_))) {
    const auto note = [this](const std::string& text) { terminal_->log(LogLevel::info, text); };
    // No thread may change this controller: without the lease the storage refuses what would be published.
    object_run_ =
        value_or_throw(run::ObjectRun::take(request_.location, request_.run_folder, note, [](const auto&) {}));
  }
  throw_if_error(storage::make_folders(request_.run_folder + "/" + run_layout::kLogs));
  log_.emplace(
      request_.run_folder + "/" + run_layout::kControllerLog,
      [this](LogLevel level, const std::string& line) { terminal_->log(level, line); },
      log_level(request_.run_config.log_level));
  store_.emplace(request_.run_folder, object_run_ ? object_run_->objects() : nullptr);
  state_ = value_or_throw(run::replay(request_.run_folder)).value_or(RunState{});
  RunOpened opened = value_or_throw(survey(request_, *store_, state_));
  opened.options = options_of(request_, world_size, validation_ != nullptr);
  storage_proof_ = value_or_throw(storage::write_storage_proof(request_.run_folder + "/" + run_layout::kStaging,
                                                               object_run_ ? object_run_->objects().get() : nullptr));
  journal_.emplace(value_or_throw(run::Journal::open(request_.run_folder)));
  report_log_.emplace(value_or_throw(track::HistoryWriter::open(request_.run_folder)));
  trackers_.emplace(request_.run_config.trackers, tracked_run(request_), report_log_->history(), *log_);
  recorder_.emplace(request_.run_folder, request_.run_store, [this](const std::string& text) { log_->warning(text); });
  note_earlier(request_, state_, opened, *log_);
  if (request_.run_config.failure_config.max_failures != 0) {
    log_->warning("a train loop in the calling process is not tried again: FailureConfig.max_failures is ignored");
  }
  callbacks_.emplace(request_, *log_, [this](Event event) { feed(std::move(event)); });
  feed(opened);
  throw_if_error(journal_->sync());
  const auto cores = static_cast<int64_t>(std::max(1u, std::thread::hardware_concurrency()));
  feed(NodeJoined{{.name = opened.host, .host = opened.host, .pid = ::getpid(), .cores = cores}});
  for (const WorkerId id : std::vector(workers_)) feed(WorkerJoined{id, id == workers_.front() ? ::getpid() : 0});
}

InProcessLoop::~InProcessLoop() = default;

// Actions may cause events, which wait until the decision at hand is executed.
void InProcessLoop::feed(Event event) {
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

void InProcessLoop::apply(const Event& event) {
  const Time now = journal_time(clock_.now());
  throw_if_error(journal_->append(event, state_.epoch, now));
  recorder_->notice();
  for (const Action& action : decide(state_, event, now)) {
    std::visit([this](const auto& kind) { execute(kind); }, action);
  }
}

LocalAnswer InProcessLoop::meet(std::vector<LocalWord> words) {
  committed_ = 0;
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
        CheckpointReady ready{.report = number};
        if (group.validation) ready.validation = with_defaults(*group.validation, request_.validation_task);
        report_log_->add(std::move(group), state_.attempt, clock_.now());
        if (has_files) feed(std::move(ready));
      }
    } else if (word.finished && !finished_[rank]) {
      finished_[rank] = true;
      const arrow::Status counts = book_->finish(static_cast<int64_t>(rank));
      if (!counts.ok()) feed(ReportRefused{state_.attempt, state_.generation, 0, counts.message()});
      feed(WorkerFinished{worker(rank), word.finished->reports, word.finished->return_value});
    }
  }
  write_reports();
  if (const auto limit = time_limit(state_); limit && limit->at <= clock_.now()) {
    feed(StopRequested{limit->reason, true});
  }
  LocalAnswer answer{.committed = committed_, .checkpoints = checkpoints()};
  if (committed_ != 0) answer.checkpoint = checkpoint_path(committed_);
  if (!stop_reason_.empty()) {
    answer.stop = stop_reason_;
    if (state_.final_state == State::errored) answer.error = error_text(state_.failures, state_.world_size);
  }
  answer.ended = std::ranges::find(finished_, false) == finished_.end();
  return answer;
}

RunOutcome InProcessLoop::end(const std::optional<rpc::Failed>& failed, bool interrupted) {
  if (interrupted) feed(StopRequested{"the driver was interrupted"});
  // Whatever it was a consequence of, nobody else will say what the cause is.
  if (failed) feed(WorkerFailed{worker(0), failed->kind, failed->text, failed->frames, failed->stopped, false});
  for (const WorkerId id : workers_) {
    WorkerExited exited{.worker = id};
    exited.last_report = book_ ? book_->last_report(0) : 0;
    feed(exited);
  }
  throw_if_error(journal_->sync());
  trackers_->finish(tracked_end(state_, clock_.now()), report_log_->history());
  const arrow::Status collected = store_->collect_leftovers();
  if (!collected.ok()) log_->warning("unpublished files could not be deleted: " + collected.message());
  recorder_->finish();
  if (object_run_) {
    const arrow::Status mirrored = object_run_->finish();
    if (!mirrored.ok()) log_->error("the run's records are not complete in the storage: " + mirrored.message());
  }
  terminal_->finish();
  RunOutcome outcome{.error = state_.error, .worker_errors = state_.worker_errors, .return_value = state_.return_value};
  if (state_.state == State::errored) outcome.state = FinalState::errored;
  if (state_.state == State::aborted) outcome.state = FinalState::aborted;
  return outcome;
}

WorkerId InProcessLoop::worker(size_t rank) const {
  return workers_.at(rank);
}

std::string InProcessLoop::checkpoint_path(int64_t report) const {
  const auto kept = std::ranges::find(state_.checkpoints, report, &KeptCheckpoint::report);
  const std::string name = kept == state_.checkpoints.end() ? "" : kept->name;
  return checkpoint_location(request_, checkpoint::folder_name(name, report));
}

void InProcessLoop::write_reports() {
  for (const ReportLog::Entry& entry : value_or_throw(report_log_->write())) {
    if (entry.group.metrics.front()) terminal_->metrics(*entry.group.metrics.front());
    if (!entry.group.complete) continue;
    const std::string checkpoint = entry.checkpoint.empty() ? "" : checkpoint_location(request_, entry.checkpoint);
    callbacks_->reported(state_, entry.group, checkpoint);
  }
  throw_if_error(report_log_->flush());
  trackers_->advance(report_log_->history());
  recorder_->notice();
}

void InProcessLoop::execute(const EnterState& action) {
  log_->debug("state: " + to_string(action.from) + " -> " + to_string(action.to));
  terminal_->state(to_string(action.to));
}

void InProcessLoop::execute(const AssignWorkers& action) {
  book_.emplace(state_.world_size, action.first_report);
  trackers_->begin_attempt(attempt_start(state_, action.checkpoint, clock_.now()), report_log_->history());
  checkpoint_ =
      action.checkpoint != 0 ? checkpoint_path(action.checkpoint) : request_.resume_from_checkpoint.value_or("");
  callbacks_->assigned(state_);
}

void InProcessLoop::execute(const EndWorker& action) {
  if (std::ranges::find(finished_, false) == finished_.end()) return;
  stop_reason_ = action.reason;
}

void InProcessLoop::execute(const CloseGroup&) {
  if (!book_) return;
  for (GroupReport& rest : book_->close()) report_log_->add(std::move(rest), state_.attempt, clock_.now());
  book_.reset();
  write_reports();
}

void InProcessLoop::execute(const PublishCheckpoint& action) {
  const ReportLog::Entry* entry = report_log_->find(action.report);
  if (entry == nullptr) return;
  checkpoint::Manifest about{.report = action.report, .name = entry->group.folder_name};
  about.attempt = entry->attempt.value;
  about.world_size = state_.world_size;
  about.time = entry->time;
  about.metrics = entry->group.metrics.front().value_or(Json::object());
  const auto published = store_->publish(entry->group.parts, about);
  if (!published.ok()) {
    report_log_->settle(action.report, "");
    return feed(PublishFailed{action.report, published.status().message()});
  }
  report_log_->settle(action.report, published->name);
  terminal_->checkpoint(published->name);
  feed(CheckpointPublished{{action.report, published->name, published->metrics, published->time}});
}

rpc::CheckpointEntries InProcessLoop::checkpoints() const {
  return checkpoint_list(state_, location_of(request_));
}

// At once, on the train loop's thread: a debugger sees it too.
void InProcessLoop::execute(const StartValidation& action) {
  ValidationEnded ended{.report = action.report, .worker = action.worker};
  const WithoutSession scope;
  try {
    ended.metrics = validation_(CheckpointAccess::published(checkpoint_path(action.report)), action.task.config).json();
  } catch (const std::exception& error) {
    ended.error = type_name(typeid(error)) + ": " + error.what();
  } catch (...) {
    ended.error = "an exception of unknown type";
  }
  feed(std::move(ended));
}

void InProcessLoop::execute(const DeleteCheckpoint& action) {
  const arrow::Status removed = store_->remove(checkpoint::folder_name(action.name, action.report));
  if (removed.ok()) return;
  log_->warning("the checkpoint of report " + std::to_string(action.report) +
                " could not be deleted: " + removed.message());
}

void InProcessLoop::execute(const TellCallbacks& action) {
  callbacks_->failed(state_, action);
}

void InProcessLoop::execute(const Finish&) {
  report_log_->settle_all();
  write_reports();
  callbacks_->ended(state_);
}

}  // namespace paceline::train
