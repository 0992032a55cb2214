// RunConfig: what a run is called, where it is stored, how it fails, what it keeps.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "paceline/core/config/checkpoint_config.h"
#include "paceline/core/config/failure_config.h"
#include "paceline/core/config/field.h"

namespace paceline {

class UserCallback;
using Callbacks = std::vector<std::shared_ptr<UserCallback>>;

}  // namespace paceline

// Callbacks are live objects of the driver: they have no JSON form.
template <>
struct nlohmann::adl_serializer<paceline::Callbacks> {
  static void to_json(json& target, const paceline::Callbacks&) { target = nullptr; }
  static void from_json(const json&, paceline::Callbacks&) {}
};

namespace paceline {

#define PACELINE_RUN_CONFIG_FIELDS(FIELD)                                                                            \
  FIELD(std::optional<std::string>, name, std::nullopt, ::paceline::file_name(),                                     \
        "Name of the run and of its folder; by default the time and a unique ending")                                \
  FIELD(std::string, storage_path, "~/paceline_results", ::paceline::any_value(),                                    \
        "Folder that holds run folders: absolute, relative to the driver's directory, ~ or file://")                 \
  FIELD(::paceline::FailureConfig, failure_config, {}, ::paceline::any_value(), "How often a run is tried again")    \
  FIELD(::paceline::CheckpointConfig, checkpoint_config, {}, ::paceline::any_value(), "Which checkpoints stay")      \
  FIELD(::paceline::Callbacks, callbacks, {}, ::paceline::any_value(), "UserCallback objects, called in the driver") \
  FIELD(std::string, log_level, "INFO", ::paceline::one_of({"DEBUG", "INFO", "WARNING", "ERROR"}),                   \
        "What the driver prints of the controller's log; the file has everything")
PACELINE_CONFIG(RunConfig, PACELINE_RUN_CONFIG_FIELDS);

}  // namespace paceline
