// RunConfig: what a run is called, where it is stored, how it fails, what it keeps.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "paceline/core/config/checkpoint_config.h"
#include "paceline/core/config/debug_config.h"
#include "paceline/core/config/failure_config.h"
#include "paceline/core/config/field.h"
#include "paceline/core/config/tracker_config.h"

namespace paceline {

class UserCallback;
/// Callbacks, in the order in which they are called.
using Callbacks = std::vector<std::shared_ptr<UserCallback>>;
/// Environment variables by name.
using Variables = std::map<std::string, std::string>;

}  // namespace paceline

// Callbacks are live objects of the driver: they have no JSON form.
template <>
struct nlohmann::adl_serializer<paceline::Callbacks> {
  static void to_json(json& target, const paceline::Callbacks&) { target = nullptr; }
  static void from_json(const json&, paceline::Callbacks&) {}
};

namespace paceline {

#define PACELINE_RUN_CONFIG_FIELDS(FIELD)                                                                              \
  FIELD(std::optional<std::string>, name, std::nullopt, ::paceline::folder_below(),                                    \
        "Name of the run and of its folder, also with '/'; by default the program's name, the time and a unique "      \
        "ending")                                                                                                      \
  FIELD(std::string, storage_path, "~/paceline_results", ::paceline::any_value(),                                      \
        "Folder that holds run folders: absolute, relative to the driver's directory, ~, or the URI of an object "     \
        "store, such as s3://bucket/folder")                                                                           \
  FIELD(::paceline::FailureConfig, failure_config, {}, ::paceline::any_value(),                                        \
        "How often a run restarts after failures")                                                                     \
  FIELD(::paceline::DebugConfig, debug_config, {}, ::paceline::any_value(), "What is watched while a run trains")      \
  FIELD(::paceline::CheckpointConfig, checkpoint_config, {}, ::paceline::any_value(), "Which checkpoints are kept")    \
  FIELD(::paceline::Callbacks, callbacks, {}, ::paceline::any_value(), "UserCallback objects, called in the driver")   \
  FIELD(::paceline::Variables, worker_environment, {}, ::paceline::variables(),                                        \
        "Environment variables of the workers, added to the driver's")                                                 \
  FIELD(std::string, working_dir, "", ::paceline::any_value(),                                                         \
        "Folder of the driver's that workers work in; on other machines in a copy, which is sent to them")             \
  FIELD(::paceline::Words, py_modules, {}, ::paceline::any_value(),                                                    \
        "For Python: folders and files of the driver's that workers can import by their names; other machines get "    \
        "copies")                                                                                                      \
  FIELD(::paceline::Words, excludes, {}, ::paceline::any_value(),                                                      \
        "What of working_dir and py_modules is not sent: patterns of names, or of paths with '/', such as \"*.bin\"")  \
  FIELD(std::optional<double>, max_time, std::nullopt, ::paceline::more_than(0),                                       \
        "Seconds after which the run ends as finished; all attempts and continuations count; not set: no limit")       \
  FIELD(::paceline::Trackers, trackers, {}, ::paceline::any_value(),                                                   \
        "Places to which the metrics go in addition to the run folder")                                                \
  FIELD(bool, dashboard, false, ::paceline::any_value(),                                                               \
        "Serve a dashboard for as long as the program lives, where none shows the run yet, and print its address")     \
  FIELD(double, log_quota_mb, 1024.0, ::paceline::more_than(0),                                                        \
        "MB that each worker's log may take; logs of earlier attempts may take as much again per rank; the oldest "    \
        "lines are deleted")                                                                                           \
  FIELD(double, log_file_mb, 64.0, ::paceline::more_than(0),                                                           \
        "MB after which a worker's log is continued in a new file: worker_7.log becomes worker_7.log.1, and so on")    \
  FIELD(bool, quiet, false, ::paceline::any_value(), "The driver prints only what workers write, warnings and errors") \
  FIELD(std::string, log_level, "INFO", ::paceline::one_of({"DEBUG", "INFO", "WARNING", "ERROR"}),                     \
        "Lowest level of the controller's log that the driver prints; the log file has everything")
PACELINE_CONFIG(RunConfig, PACELINE_RUN_CONFIG_FIELDS);

}  // namespace paceline
