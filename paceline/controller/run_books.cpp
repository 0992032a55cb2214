// From the run's folder to its first event, and from its last event to the outcome.
#include "paceline/controller/run_books.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "paceline/controller/stop_signal.h"
#include "paceline/core/posix/host_name.h"
#include "paceline/core/run_layout.h"
#include "paceline/storage/local/durable.h"
#include "paceline/storage/secrets.h"
#include "paceline/storage/storage_proof.h"
#include "paceline/track/dashboard_address.h"

namespace paceline::controller {

using namespace policy;
namespace {

// Allows changes as long as `folder` is what it is now. One that was moved away takes its lock along: of its name there
// may be another by now, and another driver's run in it.
arrow::Result<std::function<arrow::Status(bool looks)>> while_in_place(const std::string& folder) {
  ARROW_ASSIGN_OR_RAISE(const storage::FileId locked, storage::file_id(folder));
  return [folder, locked](bool looks) -> arrow::Status {
    if (!looks) return arrow::Status::OK();
    if (const auto now = storage::file_id(folder); now.ok() && *now == locked) return arrow::Status::OK();
    return arrow::Status::Cancelled("the folder ", folder,
                                    " was moved away, or replaced by another, while this run was training in it: what "
                                    "is there now is not changed. Move the folders of runs that have ended only");
  };
}

// For journal and trackers. That of programs is how to start them.
Json shown_config(const RunRequest& request) {
  const bool is_shown = request.train_loop_config.is_object() && request.role.name != rpc::kProgramRole.name;
  return is_shown ? storage::without_secrets(request.train_loop_config) : Json::object();
}

// For readers of the journal: what a person writes, not data.
Json kept_config(const RunRequest& request) {
  constexpr size_t kMostBytes = size_t{64} << 10;
  Json config = shown_config(request);
  if (is_too_deep(config, 1)) return {{"not kept", "nested deeper than " + std::to_string(kDeepestJson - 1)}};
  const size_t bytes = encode_json(config).size();
  if (bytes <= kMostBytes) return config;
  return {{"not kept", std::to_string(bytes) + " bytes, more than " + std::to_string(kMostBytes)}};
}

std::unique_ptr<track::Terminal> make_terminal(const RunRequest& request) {
  // A live line would mix with what the rank writes that has the terminal to be debugged.
  const bool quiet = request.run_config.quiet || request.run_config.debug_config.debug_rank.has_value();
  return request.standard_error ? track::make_terminal(request.standard_error, nullptr, quiet)
                                : track::make_terminal(stderr, nullptr, quiet);
}

}  // namespace

arrow::Result<std::unique_ptr<RunBooks>> RunBooks::open(const RunRequest& request, const Clock& clock,
                                                        const run::ObjectRun::Tell& on_lease_lost,
                                                        track::HistoryThread::Told on_history) {
  std::unique_ptr<RunBooks> books(new RunBooks(request, clock));
  ARROW_RETURN_NOT_OK(books->read_folder(on_lease_lost, std::move(on_history)));
  return books;
}

RunBooks::RunBooks(const RunRequest& request, const Clock& clock)
    : request_(request), clock_(clock), terminal_(make_terminal(request)) {}

arrow::Status RunBooks::read_folder(const run::ObjectRun::Tell& on_lease_lost, track::HistoryThread::Told on_history) {
  const std::string& folder = request_.run_folder;
  const auto note = [this](const std::string& text) { terminal_->log(LogLevel::info, text); };
  if (request_.location.is_uri()) {
    ARROW_ASSIGN_OR_RAISE(object_run_, run::ObjectRun::take(request_.location, folder, note, on_lease_lost));
  }
  if (!object_run_ && run::may_be_leased(folder)) {
    storage::LeaseOptions options{.note = note, .on_lost = on_lease_lost};
    if (request_.lease_renewal) options.renewal = *request_.lease_renewal;
    if (request_.lease_takeover) options.takeover = *request_.lease_takeover;
    ARROW_ASSIGN_OR_RAISE(folder_lease_, run::lease_folder(folder, std::move(options)));
    may_change_ = folder_lease_->gate();
  } else if (!object_run_) {
    ARROW_ASSIGN_OR_RAISE(may_change_, while_in_place(folder));
  }
  const std::shared_ptr<storage::Storage> objects = object_run_ ? object_run_->objects() : nullptr;
  ARROW_RETURN_NOT_OK(storage::make_folders(folder + "/" + run_layout::kLogs));
  const auto show = [this](LogLevel level, const std::string& line) { terminal_->log(level, line); };
  log_.emplace(folder + "/" + run_layout::kControllerLog, show, log_level(request_.run_config.log_level));
  callbacks_.emplace(request_, *log_, *occupation_, [this](Event event) { feed(std::move(event)); });
  ARROW_ASSIGN_OR_RAISE(const std::optional<RunState> earlier, run::replay(folder));
  state_ = earlier.value_or(RunState{});
  store_.emplace(folder, objects, object_run_ ? object_run_->folder_ending() : "");
  ARROW_ASSIGN_OR_RAISE(const track::HistoryEnd end, track::read_history_end(folder));
  ARROW_RETURN_NOT_OK(survey(end));
  ARROW_ASSIGN_OR_RAISE(storage_proof_, storage::write_storage_proof(staging_folder(), objects.get()));
  const auto gate = [this](bool looks) -> std::function<arrow::Status()> {
    if (!may_change_) return nullptr;
    return [allows = may_change_, looks] { return allows(looks); };
  };
  store_->belong_to(storage_proof_, gate(/*looks=*/true));
  const auto warn = [this](const std::string& text) { log_->warning(text); };
  ARROW_ASSIGN_OR_RAISE(journal_, run::Journal::open(folder, warn));
  ARROW_ASSIGN_OR_RAISE(auto history,
                        track::HistoryThread::open(folder, end, std::move(on_history), gate(/*looks=*/false)));
  report_queue_.emplace(std::move(history), !request_.run_config.callbacks.empty());
  samples_.emplace(folder, gate(/*looks=*/false));
  for (const PublishedCheckpoint& one : opened_.checkpoints) {
    if (!end.has_line_of(one.report)) report_queue_->restore(one, state_.attempt);
  }
  note_earlier();
  tell_page();
  const track::TrackedRun tracked{
      .name = request_.run_config.name.value_or(""), .folder = folder, .train_loop_config = shown_config(request_)};
  trackers_.emplace(request_.run_config.trackers, tracked, report_queue_->history().flushed_bytes(), *log_);
  indexer_.emplace(folder, request_.run_store, [this](const std::string& text) { log_->warning(text); });
  return arrow::Status::OK();
}

// Where a dashboard shows the run: of who reads the run store. Not in the log: others may read that, and the address
// may have a code that opens a session.
void RunBooks::tell_page() {
  const std::string state = std::filesystem::path(request_.run_store).parent_path().string();
  auto dashboard = state.empty() ? std::nullopt : track::DashboardAddress::find(state, request_.location.text());
  if (!dashboard && request_.run_config.dashboard && request_.serve_dashboard) {
    const auto served = request_.serve_dashboard();
    if (!served.ok()) log_->warning("RunConfig.dashboard: none is served: " + served.status().message());
    if (served.ok()) dashboard = *served;
  }
  if (!dashboard) return;
  const std::string page = track::run_page(*dashboard, request_.run_folder);
  if (request_.take_page) return request_.take_page(page);
  terminal_->log(LogLevel::info, "dashboard: " + page);
}

// The first event of the new epoch: checkpoints and the last report's number as the folder has them, which is the
// truth.
arrow::Status RunBooks::survey(const track::HistoryEnd& history) {
  opened_ = {.epoch = state_.epoch.next(),
             .name = request_.run_config.name.value_or(""),
             .host = host_name(),
             .pid = ::getpid(),
             .train_loop_config = kept_config(request_),
             .last_seen = state_.since};
  ARROW_ASSIGN_OR_RAISE(const auto published, store_->list());
  for (const PublishedCheckpoint& one : published) {
    opened_.checkpoints.push_back(one);
    opened_.last_report = std::max(opened_.last_report, one.report);
  }
  ARROW_RETURN_NOT_OK(check_none_is_lost());
  opened_.last_report = std::max(opened_.last_report, history.highest);
  opened_.last_seen = std::max(opened_.last_seen, history.last_time);
  return store_->collect_leftovers();  // behind the question whether something is to be put back
}

// A checkpoint that the journal knows and the storage lacks. Where there is a later one it may have been deleted: the
// journal is not synced before a deletion. Else training from an earlier one, or from scratch, may be what the user
// wants, but not what he asked for.
arrow::Status RunBooks::check_none_is_lost() {
  const auto place_of = [this](const PublishedCheckpoint& one) {
    return checkpoint_location(request_, checkpoint::folder_name(one.name, one.report));
  };
  const PublishedCheckpoint* left = opened_.checkpoints.empty() ? nullptr : &opened_.checkpoints.back();
  for (const PublishedCheckpoint& known : state_.checkpoints) {
    const auto found = std::ranges::find(opened_.checkpoints, known.report, &PublishedCheckpoint::report);
    if (found != opened_.checkpoints.end()) continue;
    // By a later report's, of which the journal has not been told.
    const bool is_replaced = std::ranges::any_of(opened_.checkpoints, [&](const PublishedCheckpoint& one) {
      return checkpoint::given_name(one) == checkpoint::given_name(known);
    });
    if (is_replaced) continue;
    const std::string lost = "the run's journal knows the checkpoint " + place_of(known) +
                             ", but there is none: the folder, or its manifest, is gone or damaged";
    const bool may_go_on =
        left != nullptr && (left->report > known.report || request_.resume_from_checkpoint == place_of(*left));
    if (!may_go_on) {
      return arrow::Status::IOError(lost, left == nullptr
                                              ? "; put it back, or begin a run of another name"
                                              : "; put it back, or, to go on from the latest that is left, give "
                                                "resume_from_checkpoint = \"" +
                                                    place_of(*left) + "\"");
    }
    log_->warning(lost);
  }
  return arrow::Status::OK();
}

// What becomes of what was found.
void RunBooks::note_earlier() {
  if (request_.resume_from_checkpoint && !opened_.checkpoints.empty()) {
    log_->warning("the run has " + opened_.checkpoints.back().name +
                  " already and goes on from it; resume_from_checkpoint " + *request_.resume_from_checkpoint +
                  " is ignored: give the run another name to start from that");
  }
  const NumWorkers& workers = request_.scaling_config.num_workers;
  if (workers.min != workers.max) {
    log_->warning("ScalingConfig.num_workers is a range; the run has " + std::to_string(workers.max) +
                  " workers throughout: elastic runs are not there yet");
  }
  if (state_.epoch.value == 0) return;
  if (state_.state == State::finished) {
    log_->info("the run had finished: training again as a further attempt");
  } else {
    log_->info("continuing a run that was " + to_string(state_.state) + " in attempt " +
               std::to_string(state_.attempt.value));
  }
}

arrow::Status RunBooks::begin(const RunOptions& options, Crew& crew) {
  crew_ = &crew;
  opened_.options = options;
  highest_report_ = opened_.last_report;
  const Time now = journal_time(clock_.now());
  const Actions actions = decide(state_, opened_, now);
  ARROW_RETURN_NOT_OK(journal_->append(opened_, state_, actions, now));
  ARROW_RETURN_NOT_OK(journal_->sync());
  indexer_->notice();
  applying_ = true;  // until all of this decision is executed
  act(actions);
  if (object_run_) object_run_->push();
  feed_all();
  return arrow::Status::OK();
}

// The thread goes on once the disk does, or never: what it would say is said for it.
void RunBooks::wait_at_end_for(const std::string& what) {
  if (what.empty()) {
    if (end_watch_) end_watch_->enter("");
    return;
  }
  if (!end_watch_) {
    end_watch_.emplace([this](const std::string& text) {
      if (has_ended_) StopHandlers::let_end();
      log_->warning(text);
    });
  }
  end_watch_->enter(has_ended_ ? "the run has ended, but the program still waits for " + what +
                                     "; Ctrl-C or SIGTERM ends it without that"
                               : "all workers have ended, but the run still waits for " + what +
                                     "; a third Ctrl-C, or a second SIGTERM, gives it up");
}

RunOutcome RunBooks::close(bool storage_hangs) {
  const std::string& folder = request_.run_folder;
  if (trackers_) {
    wait_at_end_for("the trackers, to take the last metrics");
    const RunOutcome ended = outcome();
    trackers_->finish({.state = ended.state, .message = ended.error, .time = to_seconds(clock_.now())},
                      report_queue_->history().flushed_bytes());
  }
  wait_at_end_for("the disk, to delete what is left in " + staging_folder());
  if (storage_hangs) {
    log_->warning("the storage hangs: a checkpoint that was being published or deleted is left to the next start");
  } else if (!is_ours()) {
    log_->warning("what lies in .staging is left to the driver that has the run now");
  } else if (const arrow::Status collected = store_->collect_leftovers(); !collected.ok()) {
    log_->warning("unpublished files could not be deleted: " + collected.message());
  }
  wait_at_end_for("the disk, to write the last samples");
  samples_.reset();
  wait_at_end_for("the run store " + request_.run_store);
  indexer_->finish();
  if (object_run_) {
    wait_at_end_for("the storage, to copy journal, history and logs to " + request_.location);
    const arrow::Status mirrored = object_run_->finish(storage_hangs);
    if (!mirrored.ok()) {
      log_->error("journal, history and logs are complete only in " + request_.run_folder +
                  ", not in the storage: " + mirrored.message() + "; running the same run there again copies them");
    }
  }
  wait_at_end_for("the disk, to give " + folder + " back");
  terminal_->finish();
  const char* what = state_.state == State::finished ? "results: " : "what there is of the run: ";
  terminal_->log(LogLevel::info, what + request_.location);
  return outcome();
}

void RunBooks::keep_samples(const std::string& node, std::string lines) {
  if (samples_ && !is_left_) samples_->take(node, std::move(lines), to_seconds(clock_.now()));
}

bool RunBooks::is_ours() {
  if (is_left_ || !may_change_) return !is_left_;
  const arrow::Status allowed = may_change_(/*looks=*/false);
  if (allowed.ok()) return true;
  is_left_ = true;
  // Of a lease that is lost the loop is told by the lease.
  if (!folder_lease_->is_lost()) {
    check(allowed);
  } else if (storage_failure_.empty()) {
    storage_failure_ = allowed.message();
  }
  log_->leave_file();
  log_->warning("another driver has the run, or may have it: nothing in " + request_.run_folder +
                " is changed any more");
  report_queue_->leave_history();
  trackers_.reset();
  return false;
}

int exit_code_of(const RunOutcome& outcome, int stop_signal) {
  constexpr int kSignalBase = 128;
  if (outcome.state == FinalState::finished) return 0;
  if (outcome.state == FinalState::aborted) return kSignalBase + stop_signal;
  if (is_of_nodes(outcome.failure_kind)) return kTryAgain;
  if (!outcome.first_failure) return 1;
  if (outcome.first_failure->signal != 0) return kSignalBase + outcome.first_failure->signal;
  return outcome.first_failure->exit_code != 0 ? outcome.first_failure->exit_code : 1;
}

RunOutcome RunBooks::outcome() const {
  RunOutcome outcome{.error = state_.error,
                     .failure_kind = state_.failure_kind,
                     .worker_errors = state_.worker_errors,
                     .return_value = state_.return_value};
  outcome.worker_errors.erase(-1);
  const auto first = std::ranges::find_if(state_.failures, [](const Failure& failure) { return !failure.collateral; });
  if (first != state_.failures.end() && first->ended) outcome.first_failure = first->end.status;
  const std::optional<FinalState> ended = final_state_of(state_.state);
  outcome.state = ended.value_or(FinalState::errored);
  const bool unwritten = ended == FinalState::finished && !storage_failure_.empty();
  if (unwritten || !ended) {
    outcome.state = FinalState::errored;
    outcome.error = unwritten
                        ? "The run has finished, but its folder could not be written to the end: " + storage_failure_
                        : "The run was left in the state " + to_string(state_.state) + ".";
  }
  return outcome;
}

std::string RunBooks::staging_folder() const {
  return request_.run_folder + "/" + run_layout::kStaging;
}

// Where the lock does not reach other machines the guardian cannot know whether there is a successor.
std::string RunBooks::own_staging_folder() const {
  return request_.run_folder + "/" + run_layout::staging(folder_lease_ == nullptr ? "" : storage_proof_);
}

}  // namespace paceline::controller
