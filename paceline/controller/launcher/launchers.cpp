#include <algorithm>
#include <array>
#include <string_view>

#include "paceline/controller/launcher/launcher.h"
#include "paceline/controller/launcher/local.h"

namespace paceline::controller {
namespace {

struct Row {
  std::string_view name;
  std::unique_ptr<Launcher> (*make)(const DriverResources& driver);
};

constexpr std::array kLaunchers = {
    Row{"local",
        [](const DriverResources& driver) -> std::unique_ptr<Launcher> {
          return std::make_unique<LocalLauncher>(driver.guardian);
        }},
};

}  // namespace

arrow::Result<std::unique_ptr<Launcher>> make_launcher(const std::string& name, const DriverResources& driver) {
  const auto row = std::ranges::find(kLaunchers, name, &Row::name);
  if (row == kLaunchers.end()) return arrow::Status::Invalid("there is no launcher \"", name, "\"");
  return row->make(driver);
}

std::vector<std::string> launcher_names() {
  std::vector<std::string> names;
  for (const Row& row : kLaunchers) names.emplace_back(row.name);
  return names;
}

}  // namespace paceline::controller
