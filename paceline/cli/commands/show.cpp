// paceline show RUN [--collectives] [--json]
#include "paceline/cli/command.h"
#include "paceline/cli/commands/collectives_summary.h"
#include "paceline/cli/commands/run_summary.h"
#include "paceline/cli/known_runs.h"
#include "paceline/cli/run_lookup.h"
#include "paceline/cli/table.h"
#include "paceline/run/collectives.h"
#include "paceline/run/control_client.h"

namespace paceline::cli {
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

arrow::Status show(const std::string& text, bool as_json) {
  ARROW_ASSIGN_OR_RAISE(const FoundRun found, find_run(text));
  ARROW_ASSIGN_OR_RAISE(const track::RunRecord record, recorded_run(found.folder));
  RunSummary run = summary_of(record);
  const KnownRun known = with_fate(record.run);
  run.gone = known.gone;
  if (known.gone) {
    run.remark = "its folder was deleted, and this is what the run store knows; a new run with its name starts afresh";
  } else if (!track::is_over(record.run)) {
    const auto status = run::request_status(run.path);
    if (status.ok()) {
      add_live_status(*status, run);
    } else {
      run.remark = status.status().IsCancelled() ? status.status().message() : remark_of(record.run, known.driver);
      if (known.driver == DriverState::gone) note_dead_driver(run);
    }
  }
  print(as_json ? encode_json(run) + "\n" : to_text(run));
  return arrow::Status::OK();
}

// A live run writes what its ranks have called so far first; one that does not answer has what was kept before.
arrow::Status show_collectives(const std::string& text, bool as_json) {
  ARROW_ASSIGN_OR_RAISE(const FoundRun found, find_run(text));
  ARROW_ASSIGN_OR_RAISE(const track::RunRecord record, recorded_run(found.folder));
  arrow::Status asked;
  if (!track::is_over(record.run)) asked = run::request_collectives(record.run.path);
  ARROW_ASSIGN_OR_RAISE(const run::CollectivesOfAttempt kept, run::read_kept_collectives(record.run.path));
  if (kept.ranks.empty()) ARROW_RETURN_NOT_OK(asked);
  const CollectivesSummary summary = summary_of(record.run.path, kept);
  print(as_json ? encode_json(summary) + "\n" : to_text(summary, output_columns()));
  return arrow::Status::OK();
}

}  // namespace

void add_show(CLI::App& program, int& exit_code) {
  CLI::App* command = program.add_subcommand("show", "Show a run: state, attempts, workers, checkpoints, last metrics");
  command->footer("Example: paceline show mnist");
  const auto run = add_run(*command);
  const auto collectives = std::make_shared<bool>(false);
  command->add_flag("--collectives", *collectives,
                    "Instead, its ranks' last collectives: count, time and bandwidth per kind and size");
  const auto as_json = add_json(*command);
  command->callback([run, collectives, as_json, &exit_code] {
    exit_code = report(*collectives ? show_collectives(*run, *as_json) : show(*run, *as_json));
  });
}

}  // namespace paceline::cli
