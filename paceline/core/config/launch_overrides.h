// LaunchOverrides: what `paceline run` sets in place of a driver program's own configuration.
//
// The command line puts it, as JSON, into the variable kLaunchVariable of the program that it becomes; the trainer
// reads it in one place (train/launch_overrides_internal.h).
#pragma once

#include <optional>
#include <string>

#include "paceline/core/config/field.h"
#include "paceline/core/json.h"
#include "paceline/core/record.h"

namespace paceline {

inline constexpr const char* kLaunchVariable = "PACELINE_LAUNCH";

// Each goes into the field of the same name: of ScalingConfig, RunConfig, FailureConfig and DebugConfig. Not set: the
// program's own.
#define PACELINE_LAUNCH_OVERRIDES_FIELDS(FIELD)                 \
  FIELD(std::optional<int64_t>, num_workers, std::nullopt)      \
  FIELD(std::optional<std::string>, name, std::nullopt)         \
  FIELD(std::optional<std::string>, storage_path, std::nullopt) \
  FIELD(std::optional<int64_t>, max_failures, std::nullopt)     \
  FIELD(std::optional<int64_t>, debug_rank, std::nullopt)       \
  FIELD(std::optional<bool>, quiet, std::nullopt)               \
  FIELD(std::optional<std::string>, engine, std::nullopt)       \
  FIELD(std::optional<Words>, hosts, std::nullopt)              \
  FIELD(std::optional<bool>, ship, std::nullopt)
PACELINE_RECORD(LaunchOverrides, PACELINE_LAUNCH_OVERRIDES_FIELDS);

}  // namespace paceline
