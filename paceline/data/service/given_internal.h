// What ranks have got of each dataset, for DataService::figures(). Thread-safe.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "paceline/core/data_figures.h"

namespace paceline::data {

class Given {
 public:
  /// Adds `more`, of the rank that it names.
  void add(const std::string& dataset, const RankFigures& more) {
    const std::lock_guard lock(mutex_);
    RankFigures& all = ranks_[dataset][more.rank];
    all.rank = more.rank;
    all.batches += more.batches;
    all.rows += more.rows;
    all.bytes += more.bytes;
    all.waited_s += more.waited_s;
    all.open_s += more.open_s;
  }

  std::vector<RankFigures> of(const std::string& dataset) const {
    const std::lock_guard lock(mutex_);
    std::vector<RankFigures> all;
    const auto found = ranks_.find(dataset);
    if (found == ranks_.end()) return all;
    for (const auto& [rank, figures] : found->second) all.push_back(figures);
    return all;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::map<int64_t, RankFigures>> ranks_;
};

}  // namespace paceline::data
