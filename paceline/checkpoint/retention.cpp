#include "paceline/checkpoint/retention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>

#include "paceline/core/dictionary.h"

namespace paceline::checkpoint {
namespace {

// What orders checkpoints: greater is better. NaN is below all numbers; the newer wins a tie.
using Key = std::tuple<bool, double, int64_t>;

Key key_of(const Scored& checkpoint, const CheckpointConfig& config) {
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

std::vector<int64_t> rank_checkpoints(const std::vector<Scored>& checkpoints, const CheckpointConfig& config) {
  std::vector<Key> keys;
  for (const Scored& checkpoint : checkpoints) keys.push_back(key_of(checkpoint, config));
  std::sort(keys.begin(), keys.end(), std::greater<>());
  std::vector<int64_t> ranked;
  for (const Key& key : keys) ranked.push_back(std::get<int64_t>(key));
  return ranked;
}

std::vector<int64_t> superseded(const std::vector<Scored>& checkpoints, const CheckpointConfig& config) {
  if (!config.num_to_keep || checkpoints.empty()) return {};
  const std::vector<int64_t> ranked = rank_checkpoints(checkpoints, config);
  const int64_t latest = *std::max_element(ranked.begin(), ranked.end());
  const auto kept = std::min(static_cast<size_t>(*config.num_to_keep), ranked.size());
  std::set<int64_t> deleted(ranked.begin() + static_cast<std::ptrdiff_t>(kept), ranked.end());
  deleted.erase(latest);
  for (const Scored& checkpoint : checkpoints) {
    if (checkpoint.pinned) deleted.erase(checkpoint.report);
  }
  return {deleted.begin(), deleted.end()};
}

}  // namespace paceline::checkpoint
