#include "paceline/launch/environment.h"

#include <sstream>

#include "paceline/core/posix/network_interface.h"

namespace paceline::launch {
namespace {

std::optional<std::string> value_of(const rpc::StringMap& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::nullopt : std::optional(found->second);
}

void replace_all(std::string& text, const std::string& what, const std::string& with) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size()) {
    text.replace(at, what.size(), with);
  }
}

}  // namespace

std::string visible_device(const std::optional<std::string>& devices, int64_t local_rank) {
  if (!devices) return std::to_string(local_rank);
  std::istringstream entries(*devices);
  std::string entry;
  for (int64_t i = 0; i <= local_rank; ++i) {
    if (!std::getline(entries, entry, ',')) return "-1";
  }
  const size_t first = entry.find_first_not_of(' ');
  if (first == std::string::npos) return "-1";
  return entry.substr(first, entry.find_last_not_of(' ') - first + 1);
}

rpc::StringMap program_environment(const ProgramPlan& plan, const ProgramPlace& place, rpc::StringMap inherited) {
  const rpc::Assign& assign = place.assign;
  rpc::StringMap environment = std::move(inherited);
  const std::string world_size = std::to_string(assign.world_size);
  const std::string port = std::to_string(place.master_port);
  environment["RANK"] = std::to_string(assign.rank.value);
  environment["WORLD_SIZE"] = world_size;
  environment["LOCAL_RANK"] = plan.virtual_local_rank ? "0" : std::to_string(assign.local_rank);
  environment["LOCAL_WORLD_SIZE"] = std::to_string(assign.local_world_size);
  environment["GROUP_RANK"] = std::to_string(assign.node_rank);
  environment["GROUP_WORLD_SIZE"] = std::to_string(assign.nodes);
  environment["ROLE_NAME"] = plan.role;
  environment["ROLE_RANK"] = std::to_string(assign.rank.value);
  environment["ROLE_WORLD_SIZE"] = world_size;
  const std::string master = assign.master_address.empty() ? plan.master_address : assign.master_address;
  environment["MASTER_ADDR"] = master;
  environment["MASTER_PORT"] = port;
  environment["TORCHELASTIC_RESTART_COUNT"] = std::to_string(place.attempt.value - plan.first_attempt);
  environment["TORCHELASTIC_MAX_RESTARTS"] = std::to_string(plan.max_restarts);
  environment["TORCHELASTIC_RUN_ID"] = plan.run_id;
  environment["TORCHELASTIC_ERROR_FILE"] = place.error_file;
  // Who makes a TCPStore of its own finds nobody at MASTER_PORT: its rank 0 keeps it.
  environment["TORCHELASTIC_USE_AGENT_STORE"] = "False";
  environment.try_emplace("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
  if (plan.virtual_local_rank) {
    environment["CUDA_VISIBLE_DEVICES"] =
        visible_device(value_of(environment, "CUDA_VISIBLE_DEVICES"), assign.local_rank);
  }
  if (assign.local_world_size > 1) environment.try_emplace("OMP_NUM_THREADS", std::to_string(place.threads));
  const std::string interface = assign.address.empty() ? "lo" : interface_of(assign.address);
  for (const char* name : {"GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"}) {
    if (!interface.empty()) environment.try_emplace(name, interface);
  }
  environment[kStoreVariable] = place.store;
  environment[kMasterVariable] = master + ":" + port;
  if (!plan.python_folder.empty()) {
    const std::string others = value_of(environment, "PYTHONPATH").value_or("");
    environment["PYTHONPATH"] = plan.python_folder + (others.empty() ? "" : ":" + others);
  }
  return environment;
}

rpc::Strings program_command(const ProgramPlan& plan, const rpc::Assign& assign) {
  rpc::Strings command = assign.rank.value == plan.debug_rank ? plan.debug_command : plan.command;
  for (std::string& argument : command) replace_all(argument, "${local_rank}", std::to_string(assign.local_rank));
  return command;
}

}  // namespace paceline::launch
