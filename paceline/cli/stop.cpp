// paceline stop RUN_FOLDER
#include <cstdio>

#include "paceline/cli/command.h"
#include "paceline/cli/run_summary.h"
#include "paceline/controller/control_client.h"

namespace paceline::cli {
namespace {

arrow::Status stop(const std::string& run_folder) {
  ARROW_ASSIGN_OR_RAISE(const RunSummary run, read_run(run_folder));
  if (is_over(run)) return arrow::Status::Invalid("the run in ", run.path, " is ", run.state, " already");
  const auto status = controller::request_stop(run.path, "paceline stop");
  if (!status.ok()) return status.status();
  std::printf("asked run %s to stop; `paceline show %s` tells when it has\n", run.name.c_str(), run.path.c_str());
  return arrow::Status::OK();
}

}  // namespace

void add_stop(CLI::App& program, int& exit_code) {
  CLI::App* command = program.add_subcommand(
      "stop", "Ask a live run to stop; its checkpoints stay. The third time its workers are killed");
  const auto folder = std::make_shared<std::string>();
  command->add_option("run_folder", *folder, "Folder of the run: STORAGE_PATH/NAME")->required();
  command->callback([folder, &exit_code] { exit_code = report(stop(*folder)); });
}

}  // namespace paceline::cli
