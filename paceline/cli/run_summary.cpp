#include "paceline/cli/run_summary.h"

#include <filesystem>
#include <sstream>

#include "paceline/checkpoint/store.h"
#include "paceline/controller/decide.h"
#include "paceline/controller/failure_text.h"
#include "paceline/controller/journal.h"
#include "paceline/core/clock.h"
#include "paceline/track/history.h"
#include "paceline/track/status_line.h"

namespace paceline::cli {
namespace {

// Folds the journal and keeps what the state forgets: how earlier attempts went.
class Fold {
 public:
  void add(const controller::Event& event, Time time) {
    if (const auto* opened = std::get_if<controller::RunOpened>(&event); opened != nullptr && !opened->name.empty()) {
      run_.name = opened->name;
    }
    const size_t failures = state_.failures.size();
    controller::decide(state_, event, time);
    if (state_.attempt.value != 0 && (run_.attempts.empty() || run_.attempts.back().attempt != state_.attempt.value)) {
      run_.attempts.push_back({.attempt = state_.attempt.value, .start = to_seconds(time)});
    }
    if (run_.attempts.empty()) return;
    AttemptSummary& attempt = run_.attempts.back();
    attempt.world_size = state_.world_size;
    attempt.end = to_seconds(time);
    if (state_.failures.empty() || state_.failures.size() == failures) return;
    attempt.failure = controller::cause_line(state_.failures, state_.world_size);
  }

  RunSummary finish() && {
    run_.state = controller::to_string(state_.state);
    run_.since = state_.since;
    run_.checkpoints = state_.checkpoints;
    run_.error = state_.error;
    return std::move(run_);
  }

 private:
  controller::RunState state_;
  RunSummary run_;
};

std::string seconds_as_time(double seconds) {
  return paceline::to_string(from_seconds(seconds));
}

}  // namespace

arrow::Result<RunSummary> read_run(const std::string& run_folder) {
  std::error_code error;
  const std::string path = std::filesystem::absolute(run_folder, error).string();
  if (!std::filesystem::exists(controller::journal_path(path), error)) {
    return arrow::Status::IOError(path, " holds no run (it has no journal); a run's folder is STORAGE_PATH/NAME");
  }
  Fold fold;
  ARROW_RETURN_NOT_OK(controller::read_journal(path, [&](const auto& event, Time time) { fold.add(event, time); }));
  RunSummary run = std::move(fold).finish();
  run.path = path;
  ARROW_ASSIGN_OR_RAISE(const auto rows, track::read_history(path));
  for (const track::HistoryRow& row : rows) {
    if (row.rank != 0) continue;
    run.report = row.report;
    run.metrics = track::shown_metrics(row);
  }
  return run;
}

bool is_over(const RunSummary& run) {
  return run.state == "finished" || run.state == "errored" || run.state == "aborted";
}

void add_live_status(const Json& status, RunSummary& run) {
  run.live = true;
  run.state = status.value("state", run.state);
  run.since = status.value("since", run.since);
  run.workers = status.value("workers", Json::array());
  if (status.value("last_report", int64_t{0}) < run.report) return;
  run.report = status.value("last_report", run.report);
  run.metrics = status.value("metrics", run.metrics);
}

namespace {

void write_worker(const Json& worker, std::ostream& text) {
  const Json rank = worker.value("rank", Json());
  text << "  rank " << (rank.is_null() ? "?" : rank.dump()) << "       " << worker.value("stage", "") << ", process "
       << worker.value("pid", int64_t{0}) << " on " << worker.value("node", "");
  if (worker.contains("step")) text << ", step " << worker["step"] << " (" << worker.value("phase", "") << ")";
  text << "\n";
}

void write_attempt(const AttemptSummary& attempt, std::ostream& text) {
  text << "  attempt " << attempt.attempt << "    " << attempt.world_size
       << (attempt.world_size == 1 ? " worker, " : " workers, ") << seconds_as_time(attempt.start) << ", "
       << track::duration_text(attempt.end - attempt.start);
  if (!attempt.failure.empty()) text << ", failed: " << attempt.failure;
  text << "\n";
}

}  // namespace

std::string to_text(const RunSummary& run) {
  std::ostringstream text;
  text << run.name << ": " << run.state;
  if (!run.remark.empty()) {
    text << "; " << run.remark;
  } else if (!is_over(run) && !run.live) {
    text << ", but its driver is gone; fit() with the same name and storage path resumes it";
  }
  text << "\n  folder       " << run.path << "\n  since        " << seconds_as_time(run.since) << "\n";
  for (const AttemptSummary& attempt : run.attempts) write_attempt(attempt, text);
  for (const Json& worker : run.workers) write_worker(worker, text);
  for (const auto& kept : run.checkpoints) {
    text << "  checkpoint   " << checkpoint::checkpoint_name(kept.report) << "  " << track::metrics_text(kept.metrics)
         << "\n";
  }
  if (!run.metrics.empty()) text << "  report " << run.report << "     " << track::metrics_text(run.metrics) << "\n";
  if (!run.error.empty()) text << "\n" << run.error << "\n";
  return text.str();
}

}  // namespace paceline::cli
