// paceline show RUN_FOLDER [--json]
#include <cstdio>

#include "paceline/cli/command.h"
#include "paceline/cli/run_summary.h"
#include "paceline/controller/control_client.h"

namespace paceline::cli {
namespace {

arrow::Status show(const std::string& run_folder, bool as_json) {
  ARROW_ASSIGN_OR_RAISE(RunSummary run, read_run(run_folder));
  if (!is_over(run)) {
    const auto status = controller::request_status(run.path);
    if (status.ok()) {
      add_live_status(*status, run);
    } else if (status.status().IsCancelled()) {
      run.remark = status.status().message();
    }
  }
  const std::string text = as_json ? encode_json(run) + "\n" : to_text(run);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return arrow::Status::OK();
}

}  // namespace

void add_show(CLI::App& program, int& exit_code) {
  CLI::App* command = program.add_subcommand("show", "Show a run: state, attempts, checkpoints, last metrics");
  const auto folder = std::make_shared<std::string>();
  const auto as_json = std::make_shared<bool>(false);
  command->add_option("run_folder", *folder, "Folder of the run: STORAGE_PATH/NAME")->required();
  command->add_flag("--json", *as_json, "One line of JSON instead of text");
  command->callback([folder, as_json, &exit_code] { exit_code = report(show(*folder, *as_json)); });
}

}  // namespace paceline::cli
