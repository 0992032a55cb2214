#include <cstdlib>

#include "paceline/core/error.h"
#include "paceline/train/launch_overrides_internal.h"

namespace paceline::train {
namespace {

LaunchOverrides take_from_environment() {
  const char* text = std::getenv(kLaunchVariable);
  if (text == nullptr) return {};
  const std::string json = text;
  ::unsetenv(kLaunchVariable);
  try {
    return value_or_throw(decode_json(json)).get<LaunchOverrides>();
  } catch (const std::exception& error) {
    throw UsageError(std::string("the environment variable ") + kLaunchVariable + ", which `paceline run` sets, is \"" +
                     json + "\": " + error.what());
  }
}

}  // namespace

const LaunchOverrides& launch_overrides() {
  static const LaunchOverrides overrides = take_from_environment();
  return overrides;
}

void override_with(const LaunchOverrides& overrides, ScalingConfig& scaling, RunConfig& run) {
  if (overrides.num_workers) scaling.num_workers = *overrides.num_workers;
  if (overrides.name) run.name = overrides.name;
  if (overrides.storage_path) run.storage_path = *overrides.storage_path;
  if (overrides.max_failures) run.failure_config.max_failures = *overrides.max_failures;
  if (overrides.debug_rank) run.debug_config.debug_rank = *overrides.debug_rank;
  if (overrides.quiet) run.quiet = *overrides.quiet;
  if (overrides.engine) scaling.engine = *overrides.engine;
  if (overrides.hosts) scaling.hosts = *overrides.hosts;
  if (overrides.ship) scaling.ship = *overrides.ship;
}

}  // namespace paceline::train
