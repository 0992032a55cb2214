#include <algorithm>
#include <array>
#include <string_view>

#include "paceline/controller/launcher/agents.h"
#include "paceline/controller/launcher/launcher.h"
#include "paceline/controller/launcher/local.h"
#include "paceline/controller/launcher/local_and_agents.h"

namespace paceline::controller {
namespace {

using Made = arrow::Result<std::unique_ptr<Launcher>>;

struct Row {
  std::string_view name;
  Made (*make)(const LaunchParts& parts);
};

constexpr std::array kLaunchers = {
    Row{"local", [](const LaunchParts& parts) -> Made { return std::make_unique<LocalLauncher>(parts.guardian); }},
    Row{"agents", [](const LaunchParts& parts) -> Made { return AgentsLauncher::make(parts); }},
    Row{"local_and_agents", [](const LaunchParts& parts) { return LocalAndAgentsLauncher::make(parts); }},
};

}  // namespace

arrow::Result<std::unique_ptr<Launcher>> make_launcher(const LaunchParts& parts) {
  const auto row = std::ranges::find(kLaunchers, parts.scaling.engine, &Row::name);
  if (row == kLaunchers.end()) {
    return arrow::Status::Invalid("there is no engine \"", parts.scaling.engine, "\"");
  }
  return row->make(parts);
}

std::vector<std::string> launcher_names() {
  std::vector<std::string> names;
  for (const Row& row : kLaunchers) names.emplace_back(row.name);
  return names;
}

}  // namespace paceline::controller
