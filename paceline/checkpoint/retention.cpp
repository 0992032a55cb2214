#include "paceline/checkpoint/retention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

#include "paceline/core/dictionary.h"
#include "paceline/core/metric_values.h"

namespace paceline::checkpoint {
namespace {

// What orders checkpoints: greater is better. NaN is below all numbers; the newer wins a tie.
using Key = std::tuple<bool, double, int64_t>;

// What checkpoint_score_attribute names; nothing where there is no such metric.
std::optional<Json> score_metric(const PublishedCheckpoint& checkpoint, const CheckpointConfig& config) {
  if (!config.checkpoint_score_attribute || !checkpoint.metrics.is_object()) return std::nullopt;
  const Metrics metrics(checkpoint.metrics);
  const Json* value = metrics.find(*config.checkpoint_score_attribute);
  return value == nullptr ? std::nullopt : std::optional<Json>(*value);
}

Key key_of(const PublishedCheckpoint& checkpoint, const CheckpointConfig& config) {
  constexpr double kWorst = -std::numeric_limits<double>::infinity();
  const std::optional<Json> metric = score_metric(checkpoint, config);
  const std::optional<double> score = metric ? score_of(*metric) : std::nullopt;
  if (!score) return {true, kWorst, checkpoint.report};
  if (std::isnan(*score)) return {false, 0.0, checkpoint.report};
  return {true, config.checkpoint_score_order == "min" ? -*score : *score, checkpoint.report};
}

}  // namespace

bool has_unusable_score(const PublishedCheckpoint& checkpoint, const CheckpointConfig& config) {
  const std::optional<Json> metric = score_metric(checkpoint, config);
  return metric && !score_of(*metric);
}

PublishedCheckpoints worst_first(PublishedCheckpoints checkpoints, const CheckpointConfig& config) {
  std::ranges::sort(checkpoints, {}, [&config](const auto& checkpoint) { return key_of(checkpoint, config); });
  return checkpoints;
}

std::vector<int64_t> superseded(const PublishedCheckpoints& checkpoints, const CheckpointConfig& config) {
  if (!config.num_to_keep || std::cmp_less_equal(checkpoints.size(), *config.num_to_keep)) return {};
  const int64_t latest = std::ranges::max(checkpoints, {}, &PublishedCheckpoint::report).report;
  PublishedCheckpoints ranked = worst_first(checkpoints, config);
  ranked.resize(ranked.size() - static_cast<size_t>(*config.num_to_keep));
  std::vector<int64_t> deleted;
  for (const PublishedCheckpoint& checkpoint : ranked) {
    const bool stays = checkpoint.report == latest || checkpoint.status == CheckpointStatus::pending_validation;
    if (!stays) deleted.push_back(checkpoint.report);
  }
  std::ranges::sort(deleted);
  return deleted;
}

}  // namespace paceline::checkpoint
