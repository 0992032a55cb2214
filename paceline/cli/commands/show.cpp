// paceline show RUN [--collectives] [--json]
#include "paceline/cli/command.h"
#include "paceline/cli/commands/collectives_text.h"
#include "paceline/cli/commands/run_text.h"
#include "paceline/cli/run_lookup.h"
#include "paceline/cli/table.h"
#include "paceline/views/known_runs.h"
#include "paceline/views/shown_run.h"

namespace paceline::cli {

using namespace views;
namespace {

arrow::Status show(const std::string& text, bool as_json) {
  ARROW_ASSIGN_OR_RAISE(const FoundRun found, find_run(text));
  ARROW_ASSIGN_OR_RAISE(const track::RunRecord record, recorded_run(found.folder));
  const RunSummary run = shown_run(record);
  print(as_json ? encode_json(run) + "\n" : to_text(run));
  return arrow::Status::OK();
}

arrow::Status show_collectives(const std::string& text, bool as_json) {
  ARROW_ASSIGN_OR_RAISE(const FoundRun found, find_run(text));
  ARROW_ASSIGN_OR_RAISE(const track::RunRecord record, recorded_run(found.folder));
  ARROW_ASSIGN_OR_RAISE(const CollectivesSummary summary, shown_collectives(record.run));
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
