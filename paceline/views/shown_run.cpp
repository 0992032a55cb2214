#include "paceline/views/shown_run.h"

#include "paceline/run/collectives.h"
#include "paceline/views/known_runs.h"

namespace paceline::views {
namespace {

std::string remark_of(const track::RunRow& run, DriverState driver) {
  const std::string process = "process " + std::to_string(run.pid);
  switch (driver) {
    case DriverState::none:
      return "";
    case DriverState::alive:
      return "in its driver, " + process + ", which answers no questions";
    case DriverState::gone:
      return "but its driver, " + process +
             ", is gone; to continue the run, start it again with the same name and storage path";
    case DriverState::elsewhere:
      return "its driver is or was " + process + " on " + run.host + ", which cannot be seen from here";
  }
  return "";
}

}  // namespace

RunSummary shown_run(const track::RunRecord& record, std::chrono::milliseconds patience) {
  return shown_run(record, [patience](const std::string& folder) { return run::request_status(folder, patience); });
}

RunSummary shown_run(const track::RunRecord& record, const AskStatus& ask) {
  RunSummary run = summary_of(record);
  const KnownRun known = with_fate(record.run);
  run.gone = known.gone;
  if (known.gone) {
    run.remark = "its folder was deleted, and this is what the run store knows; a new run with its name starts afresh";
  } else if (!track::is_over(record.run)) {
    const auto status = ask(run.path);
    if (status.ok()) {
      add_live_status(*status, run);
    } else {
      run.remark = status.status().IsCancelled() ? status.status().message() : remark_of(record.run, known.driver);
      if (known.driver == DriverState::gone) note_dead_driver(run);
    }
  }
  return run;
}

arrow::Result<CollectivesSummary> shown_collectives(const track::RunRow& run) {
  arrow::Status asked;
  if (!track::is_over(run)) asked = run::request_collectives(run.path);
  ARROW_ASSIGN_OR_RAISE(const run::CollectivesOfAttempt kept, run::read_kept_collectives(run.path));
  if (kept.ranks.empty() && !asked.IsIOError()) ARROW_RETURN_NOT_OK(asked);  // without a driver, that is all
  return summary_of(run.path, kept);
}

}  // namespace paceline::views
