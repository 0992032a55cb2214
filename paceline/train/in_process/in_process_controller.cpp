#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "paceline/core/error.h"
#include "paceline/core/posix/host_name.h"
#include "paceline/policy/failure_text.h"
#include "paceline/train/in_process/in_process_controller_internal.h"
#include "paceline/train/in_process/unused_settings_internal.h"
#include "paceline/train/worker/failure_internal.h"
#include "paceline/train/worker/session_internal.h"

namespace paceline::train {

using namespace policy;

namespace {

// Nothing is tried again, and one validation runs at a time, whatever the settings.
RunOptions options_in_process(const controller::RunRequest& request, int64_t world_size, bool validates) {
  RunOptions options = controller::options_of(request, world_size);
  options.gpus_per_worker = 0;  // the process has its devices already
  options.max_failures = 0;
  options.controller_failure_limit = 0;
  options.max_validations = validates ? 1 : 0;
  return options;
}

}  // namespace

InProcessController::InProcessController(controller::TakenRun run, int64_t world_size, Validation validation)
    : run_(std::move(run)), validation_(std::move(validation)), finished_(static_cast<size_t>(world_size), false) {
  books_ = value_or_throw(controller::RunBooks::open(run_.request, clock_, [this](const std::string& why) {
    const std::lock_guard lock(lease_mutex_);
    lease_lost_ = why;
  }));
  if (const std::string unused = unused_in_process(request()); !unused.empty()) books_->log().warning(unused);
  throw_if_error(books_->begin(options_in_process(request(), world_size, validation_ != nullptr), *this));
  const auto cores = static_cast<int64_t>(std::max(1u, std::thread::hardware_concurrency()));
  const std::string host = host_name();
  books_->feed(NodeJoined{{.name = host, .host = host, .pid = ::getpid(), .cores = cores}});
  for (const WorkerId id : std::vector(workers_)) {
    books_->feed(WorkerJoined{id, id == workers_.front() ? ::getpid() : 0});
  }
  if (is_training() || policy::cause_kind(state().failures) != FailureKind::storage) return;
  const controller::RunOutcome outcome = end(std::nullopt, StopCause::unknown);
  throw StorageError(outcome.error.empty() ? "the run could not be begun" : outcome.error);
}

InProcessController::~InProcessController() = default;

bool InProcessController::all_have_finished() const {
  return std::ranges::find(finished_, false) == finished_.end();
}

bool InProcessController::end_if_lease_is_lost() {
  std::unique_lock lock(lease_mutex_);
  const std::string why = std::exchange(lease_lost_, "");
  lock.unlock();
  if (!why.empty()) books_->feed(StorageFailed{why});
  return !why.empty();
}

LocalAnswer InProcessController::meet(std::vector<LocalWord> words) {
  const bool lost = end_if_lease_is_lost();
  committed_ = 0;
  for (size_t rank = 0; rank < words.size(); ++rank) {
    const LocalWord& word = words[rank];
    if (word.report) {
      if (!lost) books_->report(static_cast<int64_t>(rank), *word.report);
    } else if (word.finished && !finished_[rank]) {
      finished_[rank] = true;
      books_->finish(worker(rank), *word.finished);
    }
  }
  books_->flush();
  books_->meet_deadlines();
  LocalAnswer answer{.committed = committed_, .checkpoints = checkpoints()};
  if (committed_ != 0) answer.checkpoint = books_->checkpoint_path(committed_).with_credentials();
  if (!stop_reason_.empty()) {
    answer.stop = stop_reason_;
    if (state().final_state == FinalState::errored) answer.error = error_text(state().failures, state().world_size);
  }
  answer.ended = all_have_finished();
  return answer;
}

controller::RunOutcome InProcessController::end(const std::optional<rpc::Failed>& failed, StopCause interrupted) {
  end_if_lease_is_lost();
  if (interrupted != StopCause::unknown) books_->feed(StopRequested{.cause = interrupted});
  // Whatever it was a consequence of, nobody else will say what the cause is.
  if (failed) {
    books_->feed(WorkerFailed{workers_.front(), failed->kind, failed->text, failed->frames, failed->stopped, false});
  }
  for (const WorkerId id : workers_) {
    WorkerExited exited{.worker = id};
    exited.last_report = books_->book() != nullptr ? books_->book()->last_report(0) : 0;
    books_->feed(exited);
  }
  return books_->close();
}

void InProcessController::execute(const AssignWorkers& action) {
  checkpoint_ = books_->start_path(action.checkpoint);
}

void InProcessController::execute(const EndWorker& action) {
  if (!all_have_finished()) stop_reason_ = action.reason;
}

void InProcessController::publish(controller::PublishJob job) {
  const int64_t report = job.about.report;
  books_->settle(report, controller::publish(books_->store(), std::move(job)));
}

void InProcessController::execute(const DeleteCheckpoint& action) {
  const arrow::Status removed = books_->store().remove(checkpoint::folder_name(action.name, action.report));
  if (!removed.ok()) books_->note_removal_failed(action.report, removed);
}

// At once, on the train loop's thread: a debugger sees it too.
void InProcessController::execute(const StartValidation& action) {
  // The trainer's own has been named already.
  const bool of_report = action.task.timeout_s && action.task.timeout_s != request().validation_task.timeout_s;
  if (of_report && !std::exchange(warned_about_timeout_, true)) {
    books_->log().warning(
        "a validation in the calling process runs until it returns: its report's timeout_s has no effect");
  }
  ValidationEnded ended{.report = action.report, .worker = action.worker};
  const WithoutSession scope;
  try {
    const Checkpoint checkpoint = CheckpointAccess::published(books_->checkpoint_path(action.report));
    ended.metrics = validation_(checkpoint, action.task.config).json();
  } catch (...) {
    const rpc::Failed failed = failure_of(std::current_exception());
    ended.error = failed.kind + ": " + failed.text;
    for (const std::string& frame : failed.frames) ended.error += "\n    at " + frame;
  }
  books_->feed(std::move(ended));
}

}  // namespace paceline::train
