#include "paceline/cli/commands/collectives_summary.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>

#include "paceline/cli/table.h"
#include "paceline/core/bytes_text.h"
#include "paceline/core/run_layout.h"

namespace paceline::cli {
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

std::string time_text(double seconds) {
  std::array<char, 32> text{};
  if (seconds < 1e-3) {
    std::snprintf(text.data(), text.size(), "%.3g µs", seconds * 1e6);
  } else if (seconds < 1) {
    std::snprintf(text.data(), text.size(), "%.3g ms", seconds * 1e3);
  } else {
    std::snprintf(text.data(), text.size(), "%.4g s", seconds);
  }
  return text.data();
}

std::string share_text(double share) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f %%", 100 * share);
  return text.data();
}

// "all_reduce 12 (4.0 MiB of float32)".
std::string name_of(const CollectiveOfRank& one) {
  std::string name = one.collective + " " + std::to_string(one.number);
  if (one.group > 1) name += " of group " + std::to_string(one.group);
  if (one.bytes > 0) name += " (" + bytes_text(one.bytes) + (one.type.empty() ? "" : " of " + one.type) + ")";
  return name;
}

std::string under_way_text(const CollectiveOfRank& one) {
  return "rank " + std::to_string(one.rank) + (one.ended ? " was in " : " is in ") + name_of(one) + " for " +
         time_text(one.seconds) + (one.step > 0 ? ", since step " + std::to_string(one.step) : "") +
         (one.ended ? ", when it ended" : "") + "\n";
}

std::string only_called_text(const CollectiveOfRank& first) {
  return "rank " + std::to_string(first.rank) + (first.ended ? " had" : " has") + " called " +
         std::to_string(first.count) + (first.ended ? " that nobody waited for" : " that nobody waits for yet") +
         ", from " + name_of(first) + " on" + (first.ended ? ", when it ended" : "") + "\n";
}

std::string failed_text(const CollectiveOfRank& first) {
  return name_of(first) + " failed on rank " + std::to_string(first.rank) + " after " + time_text(first.seconds) +
         (first.step > 0 ? ", in step " + std::to_string(first.step) : "") +
         (first.count > 1 ? "; " + std::to_string(first.count - 1) + " more failed there" : "") + "\n";
}

CollectiveOfRank of_rank(const run::KeptCollectives& rank, const CollectiveRecord& record) {
  const int64_t end_ns = record.has_ended() ? record.end_ns : rank.reading.taken_ns;
  return {.rank = rank.rank,
          .ended = rank.has_ended,
          .collective = paceline::to_string(record.call.collective),
          .number = record.number,
          .group = record.group,
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

std::string to_text(const CollectivesSummary& summary, size_t columns) {
  if (summary.ranks == 0) {
    return "no collectives: the run's workers have noted none, or none has ended yet. Those of NCCL, and of groups "
           "that a train loop makes itself, are not noted\n";
  }
  std::string text = "attempt " + std::to_string(summary.attempt) + ", the last collectives of " +
                     std::to_string(summary.ranks) + " of " + std::to_string(summary.world_size) + " ranks, in " +
                     printable(summary.folder) + "\n";
  Table table({"COLLECTIVE", "UP TO", "COUNT", "BYTES", "MEDIAN", "P99", "BANDWIDTH", "SHARE"});
  for (const CollectivesOfKind& kind : summary.kinds) {
    const bool has_bytes = kind.bytes > 0;
    table.add({kind.collective, has_bytes ? bytes_text(kind.up_to_bytes) : "-", std::to_string(kind.count),
               has_bytes ? bytes_text(kind.bytes) : "-", time_text(kind.median_s), time_text(kind.p99_s),
               has_bytes ? bytes_text(static_cast<int64_t>(kind.bytes_per_s)) + "/s" : "-", share_text(kind.share)});
  }
  if (!summary.kinds.empty()) text += table.text(columns);
  for (const CollectiveOfRank& one : summary.failed) text += failed_text(one);
  for (const CollectiveOfRank& one : summary.under_way) text += under_way_text(one);
  for (const CollectiveOfRank& one : summary.only_called) text += only_called_text(one);
  return text;
}

}  // namespace paceline::cli
