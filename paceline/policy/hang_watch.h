// HangWatch: remembers between two readings of the ranks' progress what detect_hang() cannot see in one: which ranks
// compute, and what has been reported already. No clock and no I/O: it is given what the agents read. Not thread-safe.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "paceline/policy/hang.h"

namespace paceline::policy {

class HangWatch {
 public:
  explicit HangWatch(DebugConfig config) : config_(std::move(config)) {}

  /// A new worker group.
  void forget();
  /// A hang that was not reported yet, or not yet as certain.
  std::optional<HangVerdict> look(std::vector<RankProgress> ranks);
  /// Slow ranks that were not named yet in this group.
  std::vector<Straggler> new_stragglers(const std::vector<RankProgress>& ranks);

 private:
  // A rank at the first look after its last sign of progress.
  struct Standing {
    double idle_s = 0;
    double cpu_s = 0;
    double last_idle_s = 0;
  };

  bool is_computing(const RankProgress& rank);

  const DebugConfig config_;
  std::map<int64_t, Standing> standing_;
  std::vector<int64_t> reported_;
  bool reported_any_ = false;
  bool reported_certain_ = false;
  std::set<int64_t> named_stragglers_;
};

/// The ranks' standing and the verdict, as lines for the evidence folder.
std::string report_text(const HangVerdict& verdict, const std::vector<RankProgress>& ranks);

}  // namespace paceline::policy
