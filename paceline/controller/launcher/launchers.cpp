#include <algorithm>
#include <array>

#include "paceline/controller/launcher/launcher.h"
#include "paceline/controller/launcher/local.h"

namespace paceline::controller {
namespace {

struct Row {
  const char* name;
  std::unique_ptr<Launcher> (*make)(const DriverResources& driver);
};

constexpr std::array kLaunchers = {
    Row{"local",
        [](const DriverResources& driver) -> std::unique_ptr<Launcher> {
          return std::make_unique<LocalLauncher>(driver.guardian);
        }},
};

arrow::Result<const Row*> find(const std::string& name) {
  std::string names;
  for (const Row& row : kLaunchers) {
    if (name == row.name) return &row;
    names += (names.empty() ? "\"" : ", \"") + std::string(row.name) + "\"";
  }
  return arrow::Status::Invalid("ScalingConfig.launcher is \"", name, "\"; allowed: ", names);
}

}  // namespace

arrow::Result<std::unique_ptr<Launcher>> make_launcher(const std::string& name, const DriverResources& driver) {
  ARROW_ASSIGN_OR_RAISE(const Row* const row, find(name));
  return row->make(driver);
}

arrow::Status check_launcher(const std::string& name) {
  return find(name).status();
}

}  // namespace paceline::controller
