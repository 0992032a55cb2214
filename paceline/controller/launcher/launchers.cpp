#include <algorithm>
#include <array>
#include <string_view>

#include "paceline/controller/launcher/agents.h"
#include "paceline/controller/launcher/hosts.h"
#include "paceline/controller/launcher/launcher.h"
#include "paceline/controller/launcher/local.h"
#include "paceline/controller/launcher/local_and_agents.h"
#include "paceline/controller/launcher/slurm.h"

namespace paceline::controller {
namespace {

using Made = arrow::Result<std::unique_ptr<Launcher>>;

Made made_for_surroundings(const LaunchParts& parts);

struct Row {
  std::string_view name;
  Made (*make)(const LaunchParts& parts);
};

constexpr std::array kLaunchers = {
    Row{"auto", made_for_surroundings},
    Row{"local", [](const LaunchParts& parts) -> Made { return std::make_unique<LocalLauncher>(parts.guardian); }},
    Row{"agents", [](const LaunchParts& parts) -> Made { return AgentsLauncher::make(parts); }},
    Row{"local_and_agents", [](const LaunchParts& parts) { return LocalAndAgentsLauncher::make(parts); }},
    Row{"hosts", make_hosts_launcher},
    Row{"slurm", make_slurm_launcher},
    // Python starts the agents, as actors of Ray (python/paceline/_ray/), and says where to listen.
    Row{"ray",
        [](const LaunchParts& parts) -> Made {
          if (!parts.scaling.token_file.empty()) return AgentsLauncher::make(parts);
          return arrow::Status::Invalid(
              "ScalingConfig.engine is \"ray\", whose agents Python starts: call fit() in Python (paceline.train), or "
              "name "
              "another engine");
        }},
};

Made made_as(std::string_view engine, const LaunchParts& parts) {
  const auto row = std::ranges::find(kLaunchers, engine, &Row::name);
  if (row == kLaunchers.end()) return arrow::Status::Invalid("there is no engine \"", engine, "\"");
  return row->make(parts);
}

Made made_for_surroundings(const LaunchParts& parts) {
  if (!parts.scaling.hosts.empty()) return made_as("hosts", parts);
  if (!parts.scaling.token_file.empty()) return made_as("agents", parts);
  return made_as(is_slurm_job_of_several_nodes(own_variable) ? "slurm" : "local", parts);
}

}  // namespace

arrow::Result<std::unique_ptr<Launcher>> make_launcher(const LaunchParts& parts) {
  return made_as(parts.scaling.engine, parts);
}

std::vector<std::string> launcher_names() {
  std::vector<std::string> names;
  for (const Row& row : kLaunchers) names.emplace_back(row.name);
  return names;
}

}  // namespace paceline::controller
