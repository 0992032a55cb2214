#include "paceline/policy/setting_name.h"

#include <array>

namespace paceline::policy {
namespace {

struct SettingRow {
  Setting setting;
  /// Words where users cannot set it.
  const char* field;
  /// A flag, or words.
  const char* in_launch;
};

constexpr std::array kSettings = {
    SettingRow{Setting::max_failures, "FailureConfig.max_failures", "--max-restarts"},
    SettingRow{Setting::start_failures, "FailureConfig.controller_failure_limit", "the limit of failed starts"},
    SettingRow{Setting::preemptions, "FailureConfig.max_preemption_failures", "the limit of preemptions"},
    SettingRow{Setting::start_timeout, "FailureConfig.start_timeout_s", "the time to start"},
    SettingRow{Setting::heartbeat_timeout, "FailureConfig.heartbeat_timeout_s", "the time without a sign of life"},
};

const SettingRow& row_of(Setting setting) {
  return kSettings.at(static_cast<size_t>(setting));
}

}  // namespace

std::string setting_name(Setting setting, bool launch) {
  return launch ? row_of(setting).in_launch : row_of(setting).field;
}

bool has_flag(Setting setting) {
  return row_of(setting).in_launch[0] == '-';
}

}  // namespace paceline::policy
