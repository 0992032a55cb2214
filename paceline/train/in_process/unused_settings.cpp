#include "paceline/train/in_process/unused_settings_internal.h"

#include <array>
#include <utility>
#include <vector>

#include "paceline/controller/worker_process.h"

namespace paceline::train {
namespace {

constexpr const char* kNoRestart = "nothing is tried again";
constexpr const char* kNoProcess = "no process is started, watched or ended";
constexpr const char* kNoWatch = "nobody watches for hangs and slow ranks";
constexpr const char* kNoLog = "there are no worker logs";
constexpr const char* kInReport = "report() runs each validation to its end";
constexpr const char* kTooLate = "libraries that are loaded do not read it again";

constexpr std::array kUnused = {
    UnusedSetting{"ScalingConfig", "engine", kNoProcess},
    UnusedSetting{"ScalingConfig", "hosts", kNoProcess},
    UnusedSetting{"ScalingConfig", "nodes", kNoProcess},
    UnusedSetting{"ScalingConfig", "listen", kNoProcess},
    UnusedSetting{"ScalingConfig", "token_file", kNoProcess},
    UnusedSetting{"ScalingConfig", "ship", kNoProcess},
    UnusedSetting{"ScalingConfig", "placement_strategy", kNoProcess},
    UnusedSetting{"ScalingConfig", "label_selector", kNoProcess},
    UnusedSetting{"ScalingConfig", "accelerator_type", kNoProcess},
    UnusedSetting{"FailureConfig", "max_failures", kNoRestart},
    UnusedSetting{"FailureConfig", "controller_failure_limit", kNoRestart},
    UnusedSetting{"FailureConfig", "max_preemption_failures", kNoRestart},
    UnusedSetting{"FailureConfig", "start_timeout_s", kNoProcess},
    UnusedSetting{"FailureConfig", "heartbeat_timeout_s", kNoProcess},
    UnusedSetting{"FailureConfig", "node_timeout_s", kNoProcess},
    UnusedSetting{"FailureConfig", "stop_grace_s", kNoProcess},
    UnusedSetting{"DebugConfig", "hang_action", kNoWatch},
    UnusedSetting{"DebugConfig", "hang_floor_s", kNoWatch},
    UnusedSetting{"DebugConfig", "heap_profile", kNoProcess},
    UnusedSetting{"DebugConfig", "hang_factor", kNoWatch},
    UnusedSetting{"DebugConfig", "hang_start_s", kNoWatch},
    UnusedSetting{"DebugConfig", "straggler_factor", kNoWatch},
    UnusedSetting{"RunConfig", "working_dir", kNoProcess},
    UnusedSetting{"RunConfig", "py_modules", kNoProcess},
    UnusedSetting{"RunConfig", "excludes", kNoProcess},
    UnusedSetting{"RunConfig", "log_quota_mb", kNoLog},
    UnusedSetting{"RunConfig", "log_file_mb", kNoLog},
    UnusedSetting{"ValidationConfig", "max_in_flight", kInReport},
    UnusedSetting{"ValidationTaskConfig", "timeout_s", kInReport},
};

// What `request` has, and what it would have without its user.
std::pair<Json, Json> values_of(const controller::RunRequest& request, const std::string& config) {
  const RunConfig& run = request.run_config;
  if (config == "ScalingConfig") return {request.scaling_config, ScalingConfig{}};
  if (config == "FailureConfig") return {run.failure_config, FailureConfig{}};
  if (config == "DebugConfig") return {run.debug_config, DebugConfig{}};
  if (config == "RunConfig") return {run, RunConfig{}};
  if (config == "ValidationTaskConfig") return {request.validation_task, ValidationTaskConfig{}};
  return {{{"max_in_flight", request.max_validations}}, {{"max_in_flight", controller::RunRequest{}.max_validations}}};
}

}  // namespace

std::span<const UnusedSetting> settings_unused_in_process() {
  return kUnused;
}

std::string unused_in_process(const controller::RunRequest& request) {
  std::vector<std::pair<std::string, std::string>> parts;  // settings, why; as the table has them
  const auto add = [&parts](const std::string& setting, const std::string& why) {
    if (parts.empty() || parts.back().second != why) {
      parts.emplace_back(setting, why);
    } else {
      parts.back().first += ", " + setting;
    }
  };
  for (const auto& [config, field, why] : kUnused) {
    const auto [values, defaults] = values_of(request, config);
    if (values.at(field) != defaults.at(field)) add(std::string(config) + "." + field, why);
  }
  for (const auto& [name, value] : controller::read_when_loaded(request.run_config.worker_environment)) {
    add(name + " of the workers' environment", kTooLate);
  }
  std::string text;
  for (const auto& [settings, why] : parts) text += (text.empty() ? "" : "; ") + settings + " (" + why + ")";
  return text.empty() ? "" : "in the calling process (num_workers = 0) this has no effect: " + text;
}

}  // namespace paceline::train
