#include "paceline/checkpoint/retention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "paceline/core/dictionary.h"

namespace paceline::checkpoint {
namespace {

// What orders checkpoints: greater is better. NaN is below all numbers; the newer wins a tie.
using Key = std::tuple<bool, double, int64_t>;

Key key_of(const PublishedCheckpoint& checkpoint, const CheckpointConfig& config) {
  constexpr double kWorst = -std::numeric_limits<double>::infinity();
  if (!config.checkpoint_score_attribute) return {true, 0.0, checkpoint.report};
  const Metrics metrics(checkpoint.metrics.is_object() ? checkpoint.metrics : Json::object());
  const Json* value = metrics.find(*config.checkpoint_score_attribute);
  if (value == nullptr || !value->is_number()) return {true, kWorst, checkpoint.report};
  const double score = value->get<double>();
  if (std::isnan(score)) return {false, 0.0, checkpoint.report};
  return {true, config.checkpoint_score_order == "min" ? -score : score, checkpoint.report};
}

}  // namespace

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
