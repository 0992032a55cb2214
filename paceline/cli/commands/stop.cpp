// paceline stop RUN [--json]
#include "paceline/cli/command.h"
#include "paceline/cli/run_lookup.h"
#include "paceline/run/reader.h"
#include "paceline/views/run_actions.h"

namespace paceline::cli {
namespace {

arrow::Status stop(const std::string& text, bool as_json) {
  ARROW_ASSIGN_OR_RAISE(const FoundRun found, find_run(text));
  ARROW_ASSIGN_OR_RAISE(const track::RunRecord record, run::read_run_folder(found.folder));
  const track::RunRow& run = record.run;
  ARROW_ASSIGN_OR_RAISE(const Json status, views::stop_run(run, asker("stop")));
  print(as_json ? encode_json(status) + "\n"
                : "asked run " + run.name + " to stop; `paceline show " + text + "` tells when it has\n");
  return arrow::Status::OK();
}

}  // namespace

void add_stop(CLI::App& program, int& exit_code) {
  CLI::App* command =
      program.add_subcommand("stop", "Ask a live run to stop; its checkpoints stay. The third call kills its workers");
  command->footer("Example: paceline stop mnist");
  const auto run = add_run(*command);
  const auto as_json = add_json(*command);
  command->callback([run, as_json, &exit_code] { exit_code = report(stop(*run, *as_json)); });
}

}  // namespace paceline::cli
