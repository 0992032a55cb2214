#include "paceline/track/tracker/run_trackers.h"

#include <map>

namespace paceline::track {

RunTrackers::RunTrackers(const std::vector<TrackerConfig>& configs, const TrackedRun& run, const HistoryWriter& history,
                         Log& log) {
  std::map<std::string, int> count;
  for (const TrackerConfig& config : configs) {
    const int number = ++count[config.kind];
    const std::string name = number == 1 ? config.kind : config.kind + "_" + std::to_string(number);
    feeds_.push_back(std::make_unique<TrackerFeed>(name, config, run, history.flushed_bytes(), log));
  }
}

void RunTrackers::begin_attempt(const AttemptStart& start, const HistoryWriter& history) {
  for (const auto& feed : feeds_) feed->begin_attempt(start, history.bytes());
}

void RunTrackers::advance(const HistoryWriter& history) {
  for (const auto& feed : feeds_) feed->advance(history.flushed_bytes());
}

void RunTrackers::finish(const TrackedEnd& end, const HistoryWriter& history) {
  for (const auto& feed : feeds_) feed->finish(end, history.flushed_bytes());
  const auto deadline = std::chrono::steady_clock::now() + kFinishPatience;
  for (const auto& feed : feeds_) feed->wait(deadline);
}

}  // namespace paceline::track
