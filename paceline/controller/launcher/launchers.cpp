#include <algorithm>
#include <array>
#include <string_view>

#include "paceline/controller/launcher/agents.h"
#include "paceline/controller/launcher/hosts.h"
#include "paceline/controller/launcher/launcher.h"
#include "paceline/controller/launcher/local.h"
#include "paceline/controller/launcher/local_and_agents.h"
#include "paceline/controller/launcher/ray.h"
#include "paceline/controller/launcher/slurm.h"

namespace paceline::controller {
namespace {

using Made = arrow::Result<std::unique_ptr<Launcher>>;

struct Row {
  std::string_view name;
  Made (*make)(const LaunchParts& parts);
};

constexpr std::array kLaunchers = {
    Row{"auto", nullptr},  // engine_of() says which
    Row{"local",
        [](const LaunchParts& parts) -> Made {
          const agent::AgentOptions options{.sample_interval_ms = agent::kSampleIntervalMs};
          return std::make_unique<LocalLauncher>(parts.guardian, options);
        }},
    Row{"agents", [](const LaunchParts& parts) -> Made { return AgentsLauncher::make(parts); }},
    Row{"local_and_agents", [](const LaunchParts& parts) { return LocalAndAgentsLauncher::make(parts); }},
    Row{"hosts", make_hosts_launcher},
    Row{"slurm", make_slurm_launcher},
    // Python starts the agents, as actors of Ray (python/paceline/_ray/), and has said where to listen (ray.h).
    Row{"ray", [](const LaunchParts& parts) -> Made { return AgentsLauncher::make(parts); }},
};

Made made_as(std::string_view engine, const LaunchParts& parts) {
  const auto row = std::ranges::find(kLaunchers, engine, &Row::name);
  if (row == kLaunchers.end()) return arrow::Status::Invalid("there is no engine \"", engine, "\"");
  return row->make(parts);
}

}  // namespace

std::string engine_of(const ScalingConfig& scaling) {
  if (scaling.engine != "auto") return scaling.engine;
  if (!scaling.hosts.empty()) return "hosts";
  if (!scaling.token_file.empty()) return "agents";
  if (RayMachines::are_offered()) return "ray";
  return is_slurm_job_of_several_nodes(own_variable) ? "slurm" : "local";
}

arrow::Result<std::unique_ptr<Launcher>> make_launcher(const LaunchParts& parts) {
  return made_as(engine_of(parts.scaling), parts);
}

std::vector<std::string> launcher_names() {
  std::vector<std::string> names;
  for (const Row& row : kLaunchers) names.emplace_back(row.name);
  return names;
}

}  // namespace paceline::controller
