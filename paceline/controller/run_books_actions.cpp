// What happens to a run, from event to book-keeping.
#include <algorithm>

#include "paceline/checkpoint/retention.h"
#include "paceline/controller/run_books.h"
#include "paceline/controller/worker_process.h"
#include "paceline/core/run_layout.h"

namespace paceline::controller {

using namespace policy;
namespace {

// History rows are on disk a second after they came, at the latest.
constexpr std::chrono::seconds kFlushDelay{1};

}  // namespace

// Actions may cause events, which wait until the decision at hand is executed.
void RunBooks::feed(Event event) {
  events_.push_back(std::move(event));
  if (applying_) return;
  applying_ = true;
  feed_all();
}

void RunBooks::feed_all() {
  // What a Crew throws must not leave later events, the run's end among them, waiting for ever.
  const std::shared_ptr<void> scope(nullptr, [this](void*) { applying_ = false; });
  while (!events_.empty()) {
    const Event next = std::move(events_.front());
    events_.pop_front();
    if (!is_terminal(state_.state)) apply(next);
  }
}

void RunBooks::apply(const Event& event) {
  const Time now = journal_time(clock_.now());
  const Actions actions = decide(state_, event, now);
  watch_last_publications();
  // Of a folder that another driver has now nothing is changed any more.
  if (is_ours()) check(journal_->append(event, state_, actions, now));
  indexer_->notice();
  if (is_terminal(state_.state) && is_ours()) check(journal_->sync());
  if (has_ended_) wait_at_end_for("");
  const auto* published = std::get_if<CheckpointPublished>(&event);
  settling_ = published != nullptr ? &published->checkpoint : nullptr;
  if (const auto* failed = std::get_if<PublishFailed>(&event)) {
    check(report_queue_->settle(failed->report, "", now));
    hand_on_reports();
  }
  act(actions);
  show_workers();
  if (object_run_ && published != nullptr) {
    flush();  // reports behind the checkpoint's too
    object_run_->push();
  }
}

// Of a run whose workers have ended. What is published slowly is published: a signal asks to stop, as before.
void RunBooks::watch_last_publications() {
  has_ended_ = is_terminal(state_.state);
  if (has_ended_) return wait_at_end_for("the disk, to write " + request_.run_folder + "/" + run_layout::kJournal);
  if (state_.publishing.empty()) return wait_at_end_for("");
  if (state_.completed < state_.world_size && state_.live > 0) return;
  wait_at_end_for("the checkpoint of report " + std::to_string(*state_.publishing.begin()) + " to be published in " +
                  request_.location);
}

void RunBooks::show_workers() {
  const std::pair now(state_.state == State::scheduling ? state_.joined : state_.live, state_.world_size);
  if (now == shown_workers_) return;
  shown_workers_ = now;
  terminal_->workers(now.first, now.second);
}

void RunBooks::act(const Actions& actions) {
  for (const Action& action : actions) {
    std::visit([this](const auto& kind) { execute(kind); }, action);
  }
}

// The first failure to write the run folder ends the run; more of them say nothing new. One that comes when the run has
// ended already makes its outcome an error: what it ended with may not be on the disk.
void RunBooks::check(const arrow::Status& written) {
  if (written.ok() || !storage_failure_.empty()) return;
  storage_failure_ = written.message();
  if (is_terminal(state_.state)) {
    log_->error("the run's end could not be written: " + storage_failure_);
  } else {
    feed(StorageFailed{storage_failure_});
  }
}

void RunBooks::report(int64_t rank, const rpc::Report& report) {
  if (!book_ || !is_ours()) return;
  highest_report_ = std::max(highest_report_, report.index);
  auto completed = book_->add(rank, report);
  if (!completed.ok()) {
    return feed(ReportRefused{state_.attempt, state_.generation, report.index, completed.status().message()});
  }
  const Time now = clock_.now();
  if (report_queue_->note(rank, report, state_.attempt, now)) show(report.index, report.metrics);
  for (GroupReport& group : *completed) {
    const int64_t number = group.report;
    const Json metrics = group.shown()[0].value_or(Json::object());
    if (report_queue_->add(std::move(group), state_.attempt, now)) show(number, metrics);
  }
  warn_of_unequal_reports();
  if (completed->empty()) return;
  publish_ready();
  hand_on_reports();
  end_wait_for_report();
}

void RunBooks::uploaded(int64_t rank, const rpc::CheckpointUploaded& upload) {
  if (!book_) return;
  book_->add_upload(rank, upload);
  publish_ready();
  hand_on_reports();
  end_wait_for_report();
}

policy::AwaitedReport RunBooks::awaited_of(int64_t rank, bool is_gone) const {
  return book_ && rank >= 0 ? book_->awaited_of(rank, is_gone, state_.awaited_report) : AwaitedReport{};
}

// The timer of the wait is due: what it was for has come, or will not.
void RunBooks::end_wait_for_report() {
  const int64_t awaited = state_.judgement_pending ? state_.awaited_report : 0;
  if (awaited > 0 && book_ && book_->is_settled(awaited)) feed(TimerDue{state_.turn, highest_report_});
}

// Only when all files of a checkpoint, and of those before it, have come is it decided what becomes of it.
void RunBooks::publish_ready() {
  for (ReadyCheckpoint& made : book_->take_ready()) {
    const ReportQueue::Entry* const entry = report_queue_->find(made.report);
    if (entry == nullptr) continue;
    if (made.parts.empty()) {
      check(report_queue_->settle(made.report, "", clock_.now()));
      continue;
    }
    CheckpointReady ready{.report = made.report};
    if (entry->group.validation) {
      ready.validation = with_defaults(*entry->group.validation, request_.validation_task);
    }
    report_queue_->set_parts(made.report, std::move(made.parts));
    feed(std::move(ready));
  }
}

void RunBooks::show(int64_t report, const Json& metrics) {
  shown_report_ = report;
  shown_metrics_ = metrics;
  terminal_->metrics(metrics);
}

void RunBooks::warn_of_unequal_reports() {
  if (const std::string warning = book_ ? book_->take_warning() : ""; !warning.empty()) log_->warning(warning);
}

// The counts are looked at first: with the last worker's return the run may end.
void RunBooks::finish(const Worker& worker, const rpc::Finished& finished) {
  const WorkerId id = worker.id;
  if (book_) {
    const arrow::Status counts = book_->finish(worker.rank);
    if (!counts.ok()) feed(ReportRefused{state_.attempt, state_.generation, 0, counts.message()});
    warn_of_unequal_reports();
    end_wait_for_report();
  }
  feed(WorkerFinished{id, finished.reports, finished.return_value});
}

void RunBooks::settle(int64_t report, const arrow::Result<checkpoint::Published>& published) {
  check(report_queue_->history().status());  // why there is no publication, if that is why
  if (!published.ok()) return feed(PublishFailed{report, published.status().message()});
  if (!published->warning.empty()) log_->warning(published->warning);
  feed(CheckpointPublished{*published});
}

void RunBooks::note_removal_failed(int64_t report, const arrow::Status& why) {
  log_->warning("the checkpoint of report " + std::to_string(report) + " could not be deleted: " + why.message());
}

std::optional<Time> RunBooks::next_deadline() const {
  std::optional<Time> next;
  if (const auto limit = time_limit(state_)) next = limit->at;
  if (const auto since = report_queue_->unflushed_since())
    next = std::min(next.value_or(Time::max()), *since + kFlushDelay);
  return next;
}

void RunBooks::meet_deadlines() {
  const Time now = clock_.now();
  if (const auto limit = time_limit(state_); limit && limit->at <= now)
    feed(StopRequested{.reason = limit->reason, .finish = true, .cause = StopCause::time_limit});
  const auto unflushed = report_queue_->unflushed_since();
  if (unflushed && *unflushed + kFlushDelay <= now) flush();
}

void RunBooks::advance_trackers() {
  if (trackers_) trackers_->advance(report_queue_->history().flushed_bytes());
}

void RunBooks::flush() {
  if (!is_ours()) return;
  check(report_queue_->flush());
  note_history();
}

void RunBooks::note_history() {
  check(report_queue_->history().status());
  advance_trackers();
  indexer_->notice();
}

std::vector<std::string> RunBooks::waits_for() const {
  std::vector<std::string> texts;
  if (const std::string held_up = held_up_by(); !held_up.empty()) texts.push_back("ranks wait for " + held_up);
  if (!trackers_) return texts;
  for (const std::string& name : trackers_->lagging()) {
    texts.push_back("tracker " + name + " is far behind; training does not wait for it");
  }
  return texts;
}

void RunBooks::hand_on_reports() {
  for (const ReportQueue::Entry& entry : report_queue_->take()) {
    const storage::Location checkpoint =
        entry.checkpoint.empty() ? "" : checkpoint_location(request_, entry.checkpoint);
    callbacks_->reported(state_, entry.attempt, entry.group, checkpoint);
  }
}

storage::Location RunBooks::checkpoint_path(int64_t report) const {
  const auto kept = std::ranges::find(state_.checkpoints, report, &PublishedCheckpoint::report);
  const std::string name = kept == state_.checkpoints.end() ? "" : kept->name;
  return checkpoint_location(request_, checkpoint::folder_name(name, report));
}

storage::Location RunBooks::start_path(int64_t report) const {
  return report != 0 ? checkpoint_path(report) : request_.resume_from_checkpoint.value_or("");
}

PublishedCheckpoints RunBooks::checkpoints() const {
  return checkpoint::worst_first(state_.checkpoints, state_.options.checkpoint_config);
}

void RunBooks::execute(const EnterState& action) {
  log_->debug("state: " + to_string(action.from) + " -> " + to_string(action.to) + ": " + action.reason);
  terminal_->state(to_string(action.to));
  crew_->execute(action);
}

void RunBooks::execute(const AssignWorkers& action) {
  book_.emplace(state_.world_size, action.first_report);
  track::AttemptStart start{.attempt = {.attempt = state_.attempt.value,
                                        .world_size = state_.world_size,
                                        .resume_step = action.checkpoint,
                                        .time = to_seconds(clock_.now())}};
  const auto kept = std::ranges::find(state_.checkpoints, action.checkpoint, &PublishedCheckpoint::report);
  if (kept != state_.checkpoints.end()) start.resume_metrics = kept->metrics;
  if (trackers_) trackers_->begin_attempt(start, report_queue_->history().bytes());
  crew_->execute(action);
  callbacks_->assigned(state_);
}

void RunBooks::execute(const CloseGroup& action) {
  if (book_) {
    for (const int64_t report : book_->unready()) check(report_queue_->settle(report, "", clock_.now()));
  }
  book_.reset();
  const auto last = report_queue_->close_group(action.attempt, clock_.now());
  if (last) show(last->index, last->metrics);
  hand_on_reports();
  crew_->execute(action);
}

void RunBooks::execute(const PublishCheckpoint& action) {
  const ReportQueue::Entry* entry = report_queue_->find(action.report);
  if (entry == nullptr) return;
  if (!is_ours()) return feed(PublishFailed{action.report, "another driver has the run"});
  PublishJob job{.parts = entry->group.parts, .report_is_durable = report_queue_->syncing()};
  job.about.report = action.report;
  job.about.name = entry->group.folder_name;
  job.about.attempt = entry->attempt.value;
  job.about.world_size = static_cast<int64_t>(entry->group.metrics.size());
  job.about.time = entry->time;
  job.about.metrics = entry->group.shown().front().value_or(Json::object());
  crew_->publish(std::move(job));
}

// Between the journal and retention: a report's row and its callbacks know of no checkpoint that the journal does not,
// nor of one that is deleted. The workers come first: they may wait for it, and callbacks take their time.
void RunBooks::execute(const TellCommitted& action) {
  crew_->execute(action);
  check(report_queue_->settle(settling_->report, settling_->name, clock_.now()));
  terminal_->checkpoint(settling_->name);
  hand_on_reports();
}

void RunBooks::execute(const Finish&) {
  report_queue_->settle_all();
  hand_on_reports();
  wait_at_end_for("the disk, to write " + request_.run_folder + "/" + run_layout::kHistory);
  check(report_queue_->sync());
  wait_at_end_for("");
  note_history();
  callbacks_->ended(state_);
}

}  // namespace paceline::controller
