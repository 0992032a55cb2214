// TrackerConfig: a place to which a run's metrics go in addition to the run folder.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "paceline/core/config/field.h"

namespace paceline {

/// Tags by name.
using TrackerTags = std::map<std::string, std::string>;

#define PACELINE_TRACKER_CONFIG_FIELDS(FIELD)                                                                       \
  FIELD(std::string, kind, "", ::paceline::one_of({"tensorboard", "csv", "json_lines", "mlflow", "wandb"}),         \
        "Kind of tracker")                                                                                          \
  FIELD(std::string, path, "", ::paceline::any_value(),                                                             \
        "Folder for the tracker's files, which go into a subfolder with the run's name; empty: the run folder")     \
  FIELD(std::string, uri, "", ::paceline::any_value(), "mlflow: address of the server; empty: MLFLOW_TRACKING_URI") \
  FIELD(std::string, project, "", ::paceline::any_value(),                                                          \
        "wandb: project; mlflow: experiment, by default MLFLOW_EXPERIMENT_NAME; otherwise \"paceline\"")            \
  FIELD(std::string, entity, "", ::paceline::any_value(), "wandb: user or team; empty: the user who uploads")       \
  FIELD(::paceline::TrackerTags, tags, {}, ::paceline::any_value(), "mlflow, wandb: tags of the run")               \
  FIELD(std::string, step_metric, "", ::paceline::any_value(),                                                      \
        "Metric to use as the step (x-axis), nested names separated by '/'; empty, or missing in a report: the "    \
        "report's number")
PACELINE_CONFIG(TrackerConfig, PACELINE_TRACKER_CONFIG_FIELDS);

/// All trackers of a run.
using Trackers = std::vector<TrackerConfig>;

}  // namespace paceline
