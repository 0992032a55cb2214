#include "paceline/launch/launch.h"

#include <filesystem>

#include "paceline/controller/launcher/launcher.h"
#include "paceline/controller/launcher/ray.h"
#include "paceline/core/run_layout.h"
#include "paceline/run/journal.h"

namespace paceline::launch {
namespace {

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

rpc::StringMap own_versions() {
  return {{"Paceline", PACELINE_VERSION}};
}

// The arguments are what it starts, and for those who look at the list of processes.
rpc::Strings worker_command(const rpc::Strings& command) {
  rpc::Strings words = {own_path().string(), "run", "--"};
  words.insert(words.end(), command.begin(), command.end());
  return words;
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
  request.versions = own_versions();
  request.shows_output = launch.shows_output;
  request.bare_output = true;
  request.train_loop_config = plan;
  request.start.program = worker_command(plan.command);
  // Of a job of several nodes too: each of them may be told to start its own.
  request.scaling_config.engine = "local";
  agent::NodeOptions here;
  if (!launch.hosts.empty()) {
    request.scaling_config.engine = "hosts";
    request.scaling_config.hosts = launch.hosts;
    request.scaling_config.agent_command = {own_path().string()};
    request.scaling_config.num_workers = std::ssize(launch.hosts) * launch.num_workers;
    // As many on each machine, however many cores it has.
    request.scaling_config.placement_strategy = "SPREAD";
    request.scaling_config.resources_per_worker = {{"CPU", 0}};
  }
  if (launch.nodes) {
    request.scaling_config.engine = "local_and_agents";
    request.scaling_config.nodes = launch.nodes->least;
    request.scaling_config.num_workers = launch.nodes->least * launch.num_workers;
    request.scaling_config.listen = launch.nodes->listen;
    request.scaling_config.token_file = launch.nodes->token_file;
    request.most_nodes = launch.nodes->most;
    request.last_call_s = launch.nodes->last_call_s;
    here = launch.nodes->here;
    here.workers = launch.num_workers;
  }

  std::unique_ptr<controller::RayMachines> machines;
  if (launch.ray) {
    request.scaling_config = *launch.ray;
    auto reserved = controller::RayMachines::reserve(request.scaling_config, request.run_config.failure_config, stop);
    if (reserved.status().IsCancelled()) {
      return LaunchOutcome{128 + stop.signal(), reserved.status().message(), request.location};
    }
    ARROW_ASSIGN_OR_RAISE(machines, std::move(reserved));
  }

  const SystemClock clock;
  ARROW_ASSIGN_OR_RAISE(const auto launcher, controller::make_launcher({guardian, request.scaling_config,
                                                                        request.run_config.failure_config, here}));
  ARROW_ASSIGN_OR_RAISE(const controller::RunOutcome outcome, controller::run_to_end(request, *launcher, clock, stop));
  LaunchOutcome result{controller::exit_code_of(outcome, stop.signal()), outcome.error, request.location};
  // What fit() says there is of continuing, which a program of the user's does in its own way.
  if (outcome.state == FinalState::aborted) {
    result.error = "the run was stopped; all that the programs wrote: " + request.run_folder + "/" + run_layout::kLogs;
  }
  return result;
}

}  // namespace paceline::launch
