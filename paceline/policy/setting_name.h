// What users call what limits a run: a field of fit()'s configuration or, in a launch, a flag of `paceline run`. Pure.
#pragma once

#include <string>

namespace paceline::policy {

enum class Setting { max_failures, start_failures, preemptions, start_timeout, heartbeat_timeout };

/// "FailureConfig.max_failures"; of a launch "--max-restarts". Where `paceline run` has no flag, what it is in words.
std::string setting_name(Setting setting, bool launch);
/// Whether the users of a launch can set it too.
bool has_flag(Setting setting);

}  // namespace paceline::policy
