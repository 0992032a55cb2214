#include "paceline/data/operator/durations.h"

#include <algorithm>
#include <cmath>

namespace paceline::data {

thread_local std::chrono::nanoseconds Waiting::of_this_thread_{};

void Durations::add(std::chrono::nanoseconds duration) {
  const int64_t took = std::max<int64_t>(duration.count(), 1);
  sum_ += took;
  for (int64_t known = longest_; known < took && !longest_.compare_exchange_weak(known, took);) {
  }
  for (int64_t known = shortest_; known > took && !shortest_.compare_exchange_weak(known, took);) {
  }
  const double place = std::ceil(std::log2(static_cast<double>(took)) * kOfAnOctave);
  ++counts_[std::min(static_cast<size_t>(place), counts_.size() - 1)];
}

std::chrono::nanoseconds Durations::shortest() const {
  const int64_t known = shortest_;
  return std::chrono::nanoseconds(known == INT64_MAX ? 0 : known);
}

std::chrono::nanoseconds Durations::quantile(double share) const {
  int64_t all = 0;
  for (const auto& count : counts_) all += count;
  const auto wanted = static_cast<int64_t>(std::ceil(share * static_cast<double>(all)));
  int64_t so_far = 0;
  for (size_t place = 0; place + 1 < counts_.size() && wanted > 0; ++place) {
    so_far += counts_[place];
    if (so_far < wanted) continue;
    const auto bound = static_cast<int64_t>(std::exp2(static_cast<double>(place) / kOfAnOctave));
    return std::chrono::nanoseconds(std::min<int64_t>(bound, longest_));
  }
  return longest();
}

UnderWay::One::One(UnderWay& all) : all_(all) {
  const std::lock_guard lock(all.mutex_);
  place_ = all.begins_.insert(Clock::now());
}

UnderWay::One::~One() {
  const std::lock_guard lock(all_.mutex_);
  all_.begins_.erase(place_);
}

int64_t UnderWay::count() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(begins_.size());
}

UnderWay::Clock::duration UnderWay::longest() const {
  const std::lock_guard lock(mutex_);
  return begins_.empty() ? Clock::duration(0) : Clock::now() - *begins_.begin();
}

}  // namespace paceline::data
