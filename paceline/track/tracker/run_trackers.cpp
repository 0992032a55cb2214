#include "paceline/track/tracker/run_trackers.h"

#include <map>

namespace paceline::track {
namespace {

constexpr int64_t kFarBehind = int64_t{4} << 20;

}  // namespace

RunTrackers::RunTrackers(const std::vector<TrackerConfig>& configs, const TrackedRun& run, int64_t history_bytes,
                         Log& log) {
  std::map<std::string, int> count;
  for (const TrackerConfig& config : configs) {
    const int number = ++count[config.kind];
    const std::string name = number == 1 ? config.kind : config.kind + "_" + std::to_string(number);
    feeds_.push_back(std::make_unique<TrackerFeed>(name, config, run, history_bytes, log));
  }
}

void RunTrackers::begin_attempt(const AttemptStart& start, int64_t at) {
  for (const auto& feed : feeds_) feed->begin_attempt(start, at);
}

void RunTrackers::advance(int64_t history_bytes) {
  for (const auto& feed : feeds_) feed->advance(history_bytes);
}

std::vector<std::string> RunTrackers::lagging() const {
  std::vector<std::string> names;
  for (const auto& feed : feeds_) {
    if (feed->bytes_behind() > kFarBehind) names.push_back(feed->name());
  }
  return names;
}

void RunTrackers::finish(const TrackedEnd& end, int64_t history_bytes) {
  for (const auto& feed : feeds_) feed->finish(end, history_bytes);
  const auto deadline = std::chrono::steady_clock::now() + kFinishPatience;
  for (const auto& feed : feeds_) feed->wait(deadline);
}

}  // namespace paceline::track
