#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "paceline/agent/node.h"
#include "paceline/core/posix/host_name.h"

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

}  // namespace

int64_t count_gpus(const std::vector<std::string>& device_names, std::optional<std::string_view> visible) {
  const int64_t gpus = std::count_if(device_names.begin(), device_names.end(), names_gpu);
  if (!visible) return gpus;
  int64_t listed = 0;
  std::istringstream entries{std::string(*visible)};
  for (std::string entry; std::getline(entries, entry, ',') && !entry.empty() && entry != "-1";) ++listed;
  return std::min(gpus, listed);
}

rpc::NodeReady describe_node(const std::string& name) {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  rpc::NodeReady node;
  node.host = host_name();
  node.node = name.empty() ? node.host : name;
  node.pid = ::getpid();
  node.cores = count_cores();
  node.gpus = count_gpus(device_names(), visible == nullptr ? std::nullopt : std::optional<std::string_view>(visible));
  return node;
}

}  // namespace paceline::agent
