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

std::string text_of(const CollectiveUnderWay& one) {
  std::string what = "rank " + std::to_string(one.rank) + " is in " + one.collective + " " + std::to_string(one.number);
  if (one.group > 1) what += " of group " + std::to_string(one.group);
  if (one.bytes > 0) what += " (" + bytes_text(one.bytes) + (one.type.empty() ? "" : " of " + one.type) + ")";
  if (one.step > 0) what += " since step " + std::to_string(one.step);
  return what + "\n";
}

}  // namespace

CollectivesSummary summary_of(const std::string& run_folder, const run::CollectivesOfAttempt& kept) {
  CollectivesSummary summary{.folder = run_folder + "/" + run_layout::collectives_of(kept.attempt),
                             .attempt = kept.attempt.value,
                             .ranks = std::ssize(kept.ranks)};
  std::map<std::pair<std::string, int64_t>, std::pair<CollectivesOfKind, std::vector<double>>> kinds;
  double whole_s = 0;
  for (const run::KeptCollectives& rank : kept.ranks) {
    summary.world_size = std::max(summary.world_size, rank.world_size);
    int64_t first_ns = 0, last_ns = 0;
    for (const CollectiveRecord& record : rank.records) {
      const std::string collective = paceline::to_string(record.call.collective);
      if (first_ns == 0) first_ns = last_ns = record.begin_ns;
      if (record.is_under_way()) {
        summary.under_way.push_back({.rank = rank.rank,
                                     .collective = collective,
                                     .number = record.number,
                                     .group = record.group,
                                     .type = paceline::to_string(record.call.type),
                                     .bytes = record.call.bytes,
                                     .step = record.step,
                                     .since = static_cast<double>(record.begin_ns) / kNanoseconds});
        continue;
      }
      last_ns = std::max(last_ns, record.end_ns);
      const int64_t up_to = size_class(record.call.bytes);
      auto& [kind, times] = kinds[{collective, up_to}];
      kind.collective = collective;
      kind.up_to_bytes = up_to;
      kind.count += 1;
      kind.bytes += record.call.bytes;
      times.push_back(static_cast<double>(record.end_ns - record.begin_ns) / kNanoseconds);
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
  for (const CollectiveUnderWay& one : summary.under_way) text += text_of(one);
  return text;
}

}  // namespace paceline::cli
