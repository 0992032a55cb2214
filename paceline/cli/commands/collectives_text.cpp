#include "paceline/cli/commands/collectives_text.h"

#include <array>
#include <cstdio>

#include "paceline/cli/table.h"
#include "paceline/core/bytes_text.h"

namespace paceline::cli {

using namespace views;
namespace {

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
  if (!one.of.empty()) name += " of " + one.of;
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

}  // namespace

std::string to_text(const CollectivesSummary& summary, size_t columns) {
  if (summary.ranks == 0) {
    return "no collectives: the run's workers have noted none, or none has ended yet. Those of NCCL are not "
           "noted\n";
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
