#include "paceline/data/order/mix_order.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "paceline/data/order/permutation.h"

namespace paceline::data {
namespace {

constexpr int64_t kLargestPeriod = int64_t{1} << 20;
constexpr double kSmallestError = 1e-9;  // of a row in a period, by which weights may be off

// Whole numbers in the ratio of the weights: the smallest, where there are some. A weight of 0 stays 0.
std::vector<int64_t> whole_ratio(const std::vector<double>& weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<int64_t> parts(weights.size());
  for (int64_t period = 1; period <= kLargestPeriod; ++period) {
    bool is_exact = true;
    for (size_t i = 0; i < weights.size() && is_exact; ++i) {
      const double part = weights[i] / sum * static_cast<double>(period);
      parts[i] = std::llround(part);
      is_exact = std::abs(part - static_cast<double>(parts[i])) <= kSmallestError && (parts[i] > 0 || weights[i] == 0);
    }
    if (is_exact) return parts;
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    const int64_t part = std::llround(weights[i] / sum * static_cast<double>(kLargestPeriod));
    parts[i] = weights[i] == 0 ? 0 : std::max<int64_t>(part, 1);
  }
  return parts;
}

}  // namespace

MixOrder::Period MixOrder::period_of(const std::vector<double>& weights) {
  const std::vector<int64_t> parts = whole_ratio(weights);
  const int64_t length = std::accumulate(parts.begin(), parts.end(), int64_t{0});
  const auto sources = static_cast<int64_t>(parts.size() - static_cast<size_t>(std::ranges::count(parts, 0)));
  const int64_t scale = std::max<int64_t>(2 * sources - 2, 1);
  Period period;
  period.places.resize(parts.size());
  std::vector<int64_t> behind(parts.size());  // what each lacks to its part, in rows × length
  for (int64_t place = 0; place < length; ++place) {
    size_t next = parts.size();
    for (size_t i = 0; i < parts.size(); ++i) {
      if (parts[i] == 0) continue;
      behind[i] += parts[i];
      if (behind[i] * scale < length) continue;  // its time has not come
      // The one that would first be a whole row behind.
      const auto left = [&](size_t source) { return (scale - 1) * length - scale * behind[source]; };
      if (next == parts.size() || left(i) * parts[next] < left(next) * parts[i]) next = i;
    }
    behind[next] -= length;
    period.picks.push_back(static_cast<int32_t>(next));
    period.places[next].push_back(place);
  }
  return period;
}

int64_t MixOrder::Period::count(size_t source, int64_t before) const {
  const auto length = static_cast<int64_t>(picks.size());
  const std::vector<int64_t>& mine = places[source];
  const auto within = std::ranges::lower_bound(mine, before % length) - mine.begin();
  return before / length * static_cast<int64_t>(mine.size()) + within;
}

int64_t MixOrder::Period::place(size_t source, int64_t pick) const {
  const auto count = static_cast<int64_t>(places[source].size());
  return pick / count * static_cast<int64_t>(picks.size()) + places[source][static_cast<size_t>(pick % count)];
}

MixOrder::MixOrder(const std::vector<double>& weights, const std::vector<int64_t>& rows, MixStop stop) {
  std::vector<int64_t> done(weights.size());
  std::vector<double> left = weights;  // 0 for those that are not picked any more
  while (true) {
    for (size_t i = 0; i < left.size(); ++i) {
      if (stop != MixStop::first && done[i] == rows[i]) left[i] = 0;
    }
    if (std::ranges::all_of(left, [](double weight) { return weight == 0; })) return;
    Phase phase{.first = rows_, .done = done, .period = period_of(left)};
    int64_t end = stop == MixStop::repeat ? 0 : std::numeric_limits<int64_t>::max();
    for (size_t i = 0; i < left.size(); ++i) {
      if (left[i] == 0) continue;
      if (stop == MixStop::repeat) {
        end = std::max(end, phase.period.place(i, rows[i] - 1) + 1);
      } else {
        end = std::min(end, phase.period.place(i, rows[i] - done[i]));
      }
    }
    for (size_t i = 0; i < left.size(); ++i) done[i] += phase.period.count(i, end);
    rows_ += end;
    phases_.push_back(std::move(phase));
    if (stop != MixStop::all) return;
  }
}

const MixOrder::Phase& MixOrder::phase_of(int64_t position) const {
  return *std::prev(std::ranges::upper_bound(phases_, position, {}, &Phase::first));
}

std::vector<int64_t> MixOrder::before(int64_t position) const {
  if (phases_.empty()) return {};
  const Phase& phase = phase_of(position);
  std::vector<int64_t> counts = phase.done;
  for (size_t i = 0; i < counts.size(); ++i) counts[i] += phase.period.count(i, position - phase.first);
  return counts;
}

std::vector<int32_t> MixOrder::sources(int64_t first, int64_t rows) const {
  std::vector<int32_t> all;
  all.reserve(static_cast<size_t>(rows));
  for (int64_t position = first; position < first + rows;) {
    const Phase& phase = phase_of(position);
    const Phase* const next = &phase == &phases_.back() ? nullptr : &phase + 1;
    const int64_t end = std::min(first + rows, next == nullptr ? rows_ : next->first);
    const auto length = static_cast<int64_t>(phase.period.picks.size());
    for (; position < end; ++position) {
      all.push_back(phase.period.picks[static_cast<size_t>((position - phase.first) % length)]);
    }
  }
  return all;
}

uint64_t MixOrder::fingerprint() const {
  uint64_t print = static_cast<uint64_t>(rows_);
  for (const Phase& phase : phases_) {
    print = mix(print, static_cast<uint64_t>(phase.first));
    for (const auto& places : phase.period.places) print = mix(print, places.size());
  }
  return print;
}

}  // namespace paceline::data
