#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "paceline/agent/node.h"
#include "paceline/agent/out_of_memory_internal.h"
#include "paceline/core/posix/environment.h"
#include "paceline/core/posix/host_name.h"
#include "paceline/core/posix/kernel_file.h"

namespace paceline::agent {
namespace {

// Those this process may run on; the guardian's children inherit that.
int64_t count_cores() {
  std::array<cpu_set_t, 16> cores;
  if (::sched_getaffinity(0, sizeof cores, cores.data()) != 0) return 1;
  return std::max<int64_t>(1, CPU_COUNT_S(sizeof cores, cores.data()));
}

std::vector<std::string> device_names() {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/dev", error), end; !error && entry != end; entry.increment(error)) {
    names.push_back(entry->path().filename());
  }
  return names;
}

bool names_gpu(const std::string& name) {
  constexpr std::string_view kPrefix = "nvidia";
  return name.size() > kPrefix.size() && name.starts_with(kPrefix) &&
         std::all_of(name.begin() + kPrefix.size(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Of the first GPU that NVIDIA's driver tells of.
std::string accelerator_type() {
  std::error_code error;
  for (std::filesystem::directory_iterator gpu("/proc/driver/nvidia/gpus", error), end; !error && gpu != end;
       gpu.increment(error)) {
    std::istringstream lines(read_kernel_file(gpu->path().string() + "/information"));
    for (std::string line; std::getline(lines, line);) {
      constexpr std::string_view kModel = "Model:";
      if (!line.starts_with(kModel)) continue;
      const size_t first = line.find_first_not_of(" \t", kModel.size());
      return first == std::string::npos ? "" : accelerator_type_of(line.substr(first));
    }
  }
  return "";
}

// The machine's, or what this process's memory cgroup leaves it.
int64_t memory_bytes() {
  const int64_t machine = parse_kernel_number(read_kernel_file("/proc/meminfo"), "MemTotal:").value_or(0) * 1024;
  const int64_t limit = OutOfMemoryCounter::of_this_process().facts().limit_bytes;
  return limit > 0 ? std::min(machine, limit) : machine;
}

}  // namespace

int64_t count_gpus(const std::vector<std::string>& device_names, std::optional<std::string_view> visible) {
  const int64_t gpus = std::count_if(device_names.begin(), device_names.end(), names_gpu);
  if (!visible) return gpus;
  int64_t listed = 0;
  std::istringstream entries{std::string(*visible)};
  for (std::string entry; std::getline(entries, entry, ',') && !entry.empty() && entry != "-1";) ++listed;
  return std::min(gpus, listed);
}

std::string accelerator_type_of(const std::string& model) {
  const size_t space = model.find(' ');
  const size_t first = space == std::string::npos ? space : model.find_first_not_of(' ', space);
  if (first == std::string::npos) return "";
  const size_t end = model.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", first);
  return model.substr(first, end - first);
}

rpc::StringMap own_environment() {
  rpc::StringMap environment = child_environment();
  environment.erase(rpc::kChannelVariable);
  return environment;
}

rpc::NodeReady describe_node(const NodeOptions& options) {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  rpc::NodeReady node;
  node.host = host_name();
  node.node = options.name.empty() ? node.host : options.name;
  node.pid = ::getpid();
  node.cores = options.cores ? *options.cores : count_cores();
  node.gpus = options.gpus ? *options.gpus
                           : count_gpus(device_names(),
                                        visible == nullptr ? std::nullopt : std::optional<std::string_view>(visible));
  node.memory_bytes = memory_bytes();
  node.resources = options.resources;
  node.labels = options.labels;
  if (const std::string type = node.gpus > 0 ? accelerator_type() : ""; !type.empty()) {
    node.labels.emplace("accelerator_type", type);
  }
  node.address = options.address;
  node.rank = options.rank;
  node.workers = options.workers;
  return node;
}

}  // namespace paceline::agent
