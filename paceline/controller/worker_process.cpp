#include "paceline/controller/worker_process.h"

#include <unistd.h>

#include <algorithm>
#include <string_view>

namespace paceline::controller {

rpc::StringMap inherited_environment() {
  rpc::StringMap environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos || text.substr(0, equals) == rpc::kChannelVariable) continue;
    environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

int64_t threads_of(const ScalingConfig& scaling, const Node& node, int64_t workers_on_node) {
  if (scaling.threads_per_worker) return *scaling.threads_per_worker;
  return std::max<int64_t>(1, node.cores / std::max<int64_t>(1, workers_on_node));
}

std::string worker_log(WorkerId worker) {
  return "logs/worker_" + std::to_string(worker.value) + ".log";
}

rpc::StartProcess start_message(const RunRequest& request, WorkerId worker, int64_t threads,
                                const rpc::StringMap& environment) {
  const double heartbeat_timeout_s = request.run_config.failure_config.heartbeat_timeout_s;
  rpc::Welcome welcome{.role = "worker",
                       .run_name = request.run_config.name.value_or(""),
                       .run_folder = request.run_folder,
                       .train_loop = request.train_loop,
                       .train_loop_config = request.train_loop_config,
                       .scaling_config = request.scaling_config,
                       .torch_config = request.torch_config,
                       .threads = threads,
                       .heartbeat_interval_s = std::min(1.0, heartbeat_timeout_s / 4)};
  return {.role = "worker",
          .lifetime = "attempt",
          .arguments = request.program,
          .environment = environment,
          .directory = request.directory,
          .log_file = request.run_folder + "/" + worker_log(worker),
          .heartbeat_timeout_s = heartbeat_timeout_s,
          .welcome = welcome};
}

}  // namespace paceline::controller
