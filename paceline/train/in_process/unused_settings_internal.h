// The settings that say nothing where the train loop runs in the calling process. Pure. Not for users.
#pragma once

#include <span>
#include <string>

#include "paceline/controller/run_request.h"

namespace paceline::train {

struct UnusedSetting {
  const char* config;
  const char* field;
  const char* why;
};

/// All of them. Every other field has its effect, or is refused.
std::span<const UnusedSetting> settings_unused_in_process();

/// Names those that `request` has at another value than their default, and the variables that come too late for the
/// libraries that read them; "" for none.
std::string unused_in_process(const controller::RunRequest& request);

}  // namespace paceline::train
