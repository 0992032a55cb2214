#include "paceline/train/init.h"

#include <optional>

#include <filesystem>

#include "paceline/core/error.h"
#include "paceline/train/driver_internal.h"
#include "paceline/train/launch_overrides_internal.h"
#include "paceline/train/worker_internal.h"
#include "paceline/worker/connection.h"

namespace paceline {
namespace train {
namespace {

std::optional<Driver> the_driver;

}  // namespace

const Driver& driver() {
  if (!the_driver) {
    throw UsageError(
        "fit() needs paceline::init(argc, argv) at the top of main(): workers are this program, started "
        "again, and init() is where they begin");
  }
  return *the_driver;
}

}  // namespace train

void init(int argc, char** argv) {
  if (worker::Connection::offered()) train::run_worker();
  if (train::the_driver) return;
  train::launch_overrides();
  auto guardian = agent::Guardian::fork_now();
  if (!guardian.ok()) throw UsageError("paceline::init: " + guardian.status().message());
  std::vector<std::string> program{std::filesystem::read_symlink("/proc/self/exe").string()};
  program.insert(program.end(), argv + (argc > 0 ? 1 : 0), argv + argc);
  train::the_driver.emplace(train::Driver{std::move(program), *std::move(guardian)});
}

}  // namespace paceline
