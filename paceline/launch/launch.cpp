#include "paceline/launch/launch.h"

#include <filesystem>

#include "paceline/controller/launcher/launcher.h"
#include "paceline/core/run_layout.h"
#include "paceline/run/journal.h"

namespace paceline::launch {
namespace {

int exit_code_of(const controller::RunOutcome& outcome, int stop_signal) {
  if (outcome.state == FinalState::finished) return 0;
  if (outcome.state == FinalState::aborted) return kSignalExitBase + stop_signal;
  if (!outcome.first_failure) return 1;
  if (outcome.first_failure->signal != 0) return kSignalExitBase + outcome.first_failure->signal;
  return outcome.first_failure->exit_code != 0 ? outcome.first_failure->exit_code : 1;
}

std::filesystem::path own_path() {
  return std::filesystem::read_symlink("/proc/self/exe");
}

}  // namespace

std::string python_folder() {
  const auto installed = own_path().parent_path().parent_path() / "share/paceline/python/start";
  for (const std::string& folder : {installed.string(), std::string(PACELINE_PYTHON_FOLDER)}) {
    std::error_code error;
    if (std::filesystem::exists(folder + "/sitecustomize.py", error)) return folder;
  }
  return "";
}

arrow::Result<LaunchOutcome> run_launch(const Launch& launch, const agent::Guardian& guardian,
                                        controller::StopSignal& stop) {
  ARROW_ASSIGN_OR_RAISE(controller::TakenRun taken, controller::take_run(launch.run_config, launch.program));
  controller::RunRequest& request = taken.request;

  ProgramPlan plan = launch.plan;
  ARROW_ASSIGN_OR_RAISE(const auto earlier, run::replay(request.run_folder));
  if (earlier) plan.first_attempt = earlier->attempt.value + 1;
  request.scaling_config.num_workers = launch.num_workers;
  request.failure_grace_s = request.killed_grace_s = launch.run_config.failure_config.stop_grace_s;
  request.role = rpc::kProgramRole;
  request.shows_output = launch.shows_output;
  request.bare_output = true;
  request.train_loop_config = plan;
  // The arguments are for those who look at the list of processes.
  request.start.program = {own_path().string(), "run", "--"};
  request.start.program.insert(request.start.program.end(), plan.command.begin(), plan.command.end());

  const SystemClock clock;
  ARROW_ASSIGN_OR_RAISE(const auto launcher, controller::make_launcher({guardian, clock, request.scaling_config,
                                                                        request.run_config.failure_config}));
  ARROW_ASSIGN_OR_RAISE(const controller::RunOutcome outcome, controller::run_to_end(request, *launcher, clock, stop));
  LaunchOutcome result{exit_code_of(outcome, stop.signal()), outcome.error, request.location};
  // What fit() says there is of continuing, which a program of the user's does in its own way.
  if (outcome.state == FinalState::aborted) {
    result.error = "the run was stopped; all that the programs wrote: " + request.run_folder + "/" + run_layout::kLogs;
  }
  return result;
}

}  // namespace paceline::launch
