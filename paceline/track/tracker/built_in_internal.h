// The trackers that there are: one maker each, all in the table of built_in.cpp.
#pragma once

#include <memory>
#include <string>

#include "paceline/track/tracker/tracker.h"

namespace paceline::track {

std::unique_ptr<Tracker> make_csv(TrackerOptions options);
std::unique_ptr<Tracker> make_json_lines(TrackerOptions options);
std::unique_ptr<Tracker> make_mlflow(TrackerOptions options);
arrow::Status check_mlflow(const TrackerConfig& config);
std::unique_ptr<Tracker> make_tensorboard(TrackerOptions options);
std::unique_ptr<Tracker> make_wandb(TrackerOptions options);

/// Where a tracker's files go: TrackerConfig.path/RUN, by default the run folder. Not made yet.
std::string folder_of(const TrackerOptions& options);

}  // namespace paceline::track
