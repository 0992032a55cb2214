#include "paceline/views/collectives_summary.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "paceline/core/run_layout.h"
#include "paceline/policy/failure_text.h"

namespace paceline::views {
namespace {

constexpr double kNanoseconds = 1e9;

int64_t size_class(int64_t bytes) {
  if (bytes <= 0) return 0;
  constexpr int64_t kLargest = int64_t{1} << 60;  // whatever a damaged recording says
  int64_t up_to = 1024;
  while (up_to < bytes && up_to < kLargest) up_to *= 4;
  return up_to;
}

// The smallest that so large a part is not above.
double quantile(const std::vector<double>& sorted, double part) {
  const auto place = static_cast<size_t>(std::ceil(part * static_cast<double>(sorted.size())));
  return sorted[std::max<size_t>(place, 1) - 1];
}

// `ranks`: null for all, and where they are not known.
std::string group_text(int64_t group, const std::vector<int64_t>* ranks) {
  if (ranks != nullptr) return policy::ranks_text(*ranks);
  if (group >= kFirstGroupOfSome) return "some ranks";
  return group > 1 ? "group " + std::to_string(group) : "";
}

CollectiveOfRank of_rank(const run::KeptCollectives& rank, const CollectiveRecord& record) {
  const int64_t end_ns = record.has_ended() ? record.end_ns : rank.reading.taken_ns;
  return {.rank = rank.rank,
          .ended = rank.has_ended,
          .collective = paceline::to_string(record.call.collective),
          .number = record.number,
          .group = record.group,
          .of = group_text(record.group, rank.reading.ranks_of(record.group)),
          .type = paceline::to_string(record.call.type),
          .bytes = record.call.bytes,
          .step = record.step,
          .since = static_cast<double>(record.start_ns()) / kNanoseconds,
          .seconds = static_cast<double>(std::max<int64_t>(end_ns - record.start_ns(), 0)) / kNanoseconds};
}

// Only the first of a rank is told.
void count(std::vector<CollectiveOfRank>& list, const CollectiveOfRank& one) {
  if (!list.empty() && list.back().rank == one.rank) {
    ++list.back().count;
  } else {
    list.push_back(one);
  }
}

}  // namespace

CollectivesSummary summary_of(const std::string& run_folder, const run::CollectivesOfAttempt& kept) {
  CollectivesSummary summary{.attempt = kept.attempt.value, .ranks = std::ssize(kept.ranks)};
  if (summary.ranks > 0) summary.folder = run_folder + "/" + run_layout::collectives_of(kept.attempt);
  std::map<std::pair<std::string, int64_t>, std::pair<CollectivesOfKind, std::vector<double>>> kinds;
  double whole_s = 0;
  for (const run::KeptCollectives& rank : kept.ranks) {
    summary.world_size = std::max(summary.world_size, rank.world_size);
    int64_t first_ns = 0, last_ns = 0;
    for (const CollectiveRecord& record : rank.reading.records) {
      if (first_ns == 0) first_ns = last_ns = record.called_ns;
      last_ns = std::max(last_ns, record.end_ns);
      if (record.is_under_way()) summary.under_way.push_back(of_rank(rank, record));
      if (record.is_only_called()) count(summary.only_called, of_rank(rank, record));
      if (record.has_failed) count(summary.failed, of_rank(rank, record));
      if (!record.has_ended() || record.has_failed) continue;
      const std::string collective = paceline::to_string(record.call.collective);
      const int64_t up_to = size_class(record.call.bytes);
      auto& [kind, times] = kinds[{collective, up_to}];
      kind.collective = collective;
      kind.up_to_bytes = up_to;
      kind.count += 1;
      kind.bytes += record.call.bytes;
      times.push_back(static_cast<double>(record.end_ns - record.start_ns()) / kNanoseconds);
    }
    whole_s += static_cast<double>(last_ns - first_ns) / kNanoseconds;
  }
  for (auto& [key, entry] : kinds) {
    auto& [kind, times] = entry;
    std::ranges::sort(times);
    double sum_s = 0;
    for (const double time : times) sum_s += time;
    kind.median_s = quantile(times, 0.5);
    kind.p99_s = quantile(times, 0.99);
    kind.bytes_per_s = sum_s > 0 ? static_cast<double>(kind.bytes) / sum_s : 0;
    kind.share = whole_s > 0 ? sum_s / whole_s : 0;
    summary.kinds.push_back(kind);
  }
  std::ranges::stable_sort(summary.kinds, std::ranges::greater{}, &CollectivesOfKind::share);
  return summary;
}

}  // namespace paceline::views
