#include "paceline/controller/worker_process.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "paceline/agent/node.h"
#include "paceline/controller/packages.h"
#include "paceline/core/run_layout.h"
#include "paceline/run/worker_logs.h"

namespace paceline::controller {

using namespace policy;

rpc::StringMap worker_environment(const RunConfig& run_config) {
  rpc::StringMap environment = run_config.worker_environment;
  environment.merge(agent::own_environment());
  if (const std::string modules = local_modules(run_config); !modules.empty()) {
    std::string& path = environment["PYTHONPATH"];
    path = path.empty() ? modules : modules + ":" + path;
  }
  return environment;
}

rpc::StringMap read_when_loaded(const rpc::StringMap& environment) {
  constexpr std::array kReadWhenLoaded = {"OMP_",    "MKL_",    "GOMP_",  "KMP_",   "OPENBLAS_", "DNNL_",
                                          "ONEDNN_", "CUDA_",   "NCCL_",  "TORCH_", "PYTORCH_",  "LD_",
                                          "PYTHON",  "MALLOC_", "GLIBC_", "ARROW_", "ASAN_",     "TSAN_",
                                          "UBSAN_",  "LSAN_",   "ATEN_",  "JE_",    "DS_",       "VIRTUAL_ENV"};
  rpc::StringMap read;
  for (const auto& [name, value] : environment) {
    const auto begins = [&](const char* prefix) { return name.starts_with(prefix); };
    if (std::ranges::any_of(kReadWhenLoaded, begins)) read.emplace(name, value);
  }
  return read;
}

std::string fork_server_key(const rpc::StringMap& environment) {
  std::string key;
  for (const auto& [name, value] : read_when_loaded(environment)) key += name + "=" + value + "\n";
  return key;
}

int64_t threads_of(const ScalingConfig& scaling, const Node& node, int64_t workers_on_node) {
  if (scaling.threads_per_worker) return *scaling.threads_per_worker;
  return std::max<int64_t>(1, node.cores / std::max<int64_t>(1, workers_on_node));
}

rpc::StartProcess start_message(const RunRequest& request, WorkerId worker, int64_t threads,
                                const rpc::StringMap& environment, const std::string& storage_proof) {
  const run::LogLimit log = run::log_limit(request.run_config);
  const double heartbeat_timeout_s = request.run_config.failure_config.heartbeat_timeout_s;
  rpc::Welcome welcome{.role = std::string(request.role.name),
                       .run_name = request.run_config.name.value_or(""),
                       .run_folder = request.run_folder,
                       .location = request.location.with_credentials(),
                       .storage_proof = storage_proof,
                       .train_loop = request.train_loop,
                       .scaling_config = request.scaling_config,
                       .torch_config = request.torch_config,
                       .debug_config = request.run_config.debug_config,
                       .validation_fn = request.validation_fn,
                       .has_datasets = request.has_datasets,
                       .threads = threads,
                       .heartbeat_interval_s = std::min(1.0, heartbeat_timeout_s / 4)};
  return {.arguments = request.start.program,
          .environment = environment,
          .directory = local_directory(request),
          .fork = request.start.fork,
          .fork_server = request.start.fork_server,
          .fork_server_key = fork_server_key(environment),
          .log_file = request.run_folder + "/" + run_layout::worker_log(worker),
          .log_file_bytes = log.file_bytes,
          .log_files = log.files,
          .heartbeat_timeout_s = request.run_config.debug_config.debug_rank ? 0 : heartbeat_timeout_s,
          .welcome = welcome};
}

rpc::StartProcess start_validation_message(const RunRequest& request, const StartValidation& action,
                                           const std::string& path, int64_t threads,
                                           const rpc::StringMap& environment) {
  rpc::StartProcess message = start_message(request, action.worker, threads, environment, "");
  auto welcome = message.welcome.get<rpc::Welcome>();
  welcome.role = rpc::kValidationRole.name;
  welcome.validation_config = action.task.config;
  welcome.checkpoint = path;
  message.log_file = request.run_folder + "/" + run_layout::validation_log(action.report);
  message.welcome = welcome;
  return message;
}

rpc::StartProcess start_data_message(const RunRequest& request, WorkerId worker, int64_t threads,
                                     const rpc::StringMap& environment) {
  rpc::StartProcess message = start_message(request, worker, threads, environment, "");
  auto welcome = message.welcome.get<rpc::Welcome>();
  welcome.role = rpc::kDataRole.name;
  welcome.figures_file = request.run_folder + "/" + run_layout::data_figures(worker);
  message.log_file = request.run_folder + "/" + run_layout::data_log(worker);
  message.serves_data = true;
  message.welcome = welcome;
  return message;
}

void profile_heap(rpc::StartProcess& message) {
  message.heap_profile = true;
  message.fork = false;
  message.fork_server_key += "heap_profile\n";
}

void begin_elsewhere(rpc::StartProcess& message, const RunRequest& request) {
  message.environment = request.run_config.worker_environment;
  message.directory = request.directory;
  if (request.scaling_config.engine == "ray") message.directory.clear();
  message.inherit = true;
  message.fork = false;
  message.writes_log = false;
  message.waiting_streams = {"stdout", "stderr"};
}

ValidationTaskConfig with_defaults(ValidationTaskConfig task, const ValidationTaskConfig& otherwise) {
  Config config = otherwise.config;
  for (const auto& [name, value] : task.config.json().items()) config.set(name, value);
  task.config = std::move(config);
  if (!task.timeout_s) task.timeout_s = otherwise.timeout_s;
  return task;
}

}  // namespace paceline::controller
