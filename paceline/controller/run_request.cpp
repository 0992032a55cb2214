#include "paceline/controller/run_request.h"

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>

#include "paceline/run/run_place.h"
#include "paceline/track/run_store.h"

namespace paceline::controller {

arrow::Result<TakenRun> take_run(const RunConfig& run_config, const std::string& program) {
  RunRequest request;
  request.run_config = run_config;
  // As they are now: the program may go to another folder.
  std::string& folder = request.run_config.working_dir;
  if (!folder.empty()) folder = std::filesystem::absolute(folder).lexically_normal();
  for (std::string& module : request.run_config.py_modules) {
    module = std::filesystem::absolute(module).lexically_normal();
  }
  std::optional<std::string>& name = request.run_config.name;
  const char* const task = std::getenv("SLURM_ARRAY_TASK_ID");
  if (!name) {
    name = run::new_run_name(program);
  } else if (task != nullptr) {
    *name += std::string("_") + task;  // of a job array each task is a run
  }
  const auto place = run::make_run_place(run_config.storage_path, *request.run_config.name);
  if (!place.ok()) {
    return place.status().WithMessage("RunConfig.storage_path is \"", storage::Location(run_config.storage_path),
                                      "\": ", place.status().message());
  }
  request.run_folder = place->folder;
  request.location = place->location;
  request.run_store = track::user_run_store().ValueOr("");
  request.directory = std::filesystem::current_path().string();
  ARROW_ASSIGN_OR_RAISE(storage::RunLock lock, storage::RunLock::acquire(request.run_folder));
  return TakenRun{std::move(request), std::move(lock)};
}

policy::RunOptions options_of(const RunRequest& request, int64_t world_size) {
  const FailureConfig& failure = request.run_config.failure_config;
  return {.num_workers = world_size,
          .node_timeout_s = failure.node_timeout_s,
          .most_nodes = request.most_nodes,
          .last_call_s = request.last_call_s,
          .gpus_per_worker = gpus_per_worker(request.scaling_config),
          .placement_strategy = request.scaling_config.placement_strategy,
          .max_failures = failure.max_failures,
          .controller_failure_limit = failure.controller_failure_limit,
          .max_preemption_failures = failure.max_preemption_failures,
          .start_timeout_s = failure.start_timeout_s,
          .stop_grace_s = failure.stop_grace_s,
          .failure_grace_s = request.failure_grace_s,
          .killed_grace_s = request.killed_grace_s,
          .max_time = request.run_config.max_time,
          .launch = request.role.name == rpc::kProgramRole.name,
          .max_validations = request.validation_fn.empty() ? 0 : request.max_validations,
          .has_datasets = request.has_datasets,
          .checkpoint_config = request.run_config.checkpoint_config};
}

void ask_of_nodes(const ScalingConfig& scaling, policy::RunOptions& options) {
  options.cpus_per_worker = cpus_per_worker(scaling);
  options.label_selector = scaling.label_selector;
  if (scaling.accelerator_type) options.label_selector["accelerator_type"] = *scaling.accelerator_type;
  for (const auto& [name, amount] : scaling.resources_per_worker) {
    if (name == "CPU" || name == "GPU") continue;
    if (name == "memory") {
      options.memory_per_worker = amount;
    } else {
      options.resources_per_worker[name] = amount;
    }
  }
}

std::string settings_of_other_nodes(const ScalingConfig& scaling) {
  policy::RunOptions asked;
  ask_of_nodes(scaling, asked);
  std::string names;
  const auto add = [&names](const std::string& name) { names += (names.empty() ? "" : ", ") + name; };
  if (!scaling.label_selector.empty()) add("label_selector");
  if (scaling.accelerator_type) add("accelerator_type");
  if (asked.memory_per_worker > 0) add("resources_per_worker[\"memory\"]");
  if (scaling.ship) add("ship");
  if (!scaling.hosts.empty()) add("hosts");
  if (scaling.nodes) add("nodes");
  if (!scaling.listen.empty()) add("listen");
  if (!scaling.token_file.empty()) add("token_file");
  for (const auto& [name, amount] : asked.resources_per_worker) add("resources_per_worker[\"" + name + "\"]");
  return names;
}

storage::Location checkpoint_location(const RunRequest& request, const std::string& name) {
  return storage::join(request.location, name);
}

}  // namespace paceline::controller
