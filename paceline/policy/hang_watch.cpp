#include "paceline/policy/hang_watch.h"

namespace paceline::policy {
namespace {

// Of one processor, on average since the last sign of progress: a thread that waits uses nearly nothing.
constexpr double kComputingShare = 0.3;

}  // namespace

void HangWatch::forget() {
  standing_.clear();
  named_stragglers_.clear();
  reported_any_ = false;
}

bool HangWatch::is_computing(const RankProgress& rank) {
  const rpc::ProcessProgress& now = rank.progress;
  const auto [found, is_new] = standing_.try_emplace(rank.rank);
  Standing& standing = found->second;
  if (is_new || now.idle_s < standing.last_idle_s) standing = {.idle_s = now.idle_s, .cpu_s = now.cpu_s};
  standing.last_idle_s = now.idle_s;
  const double watched_s = now.idle_s - standing.idle_s;
  return watched_s > 0 && now.cpu_s - standing.cpu_s >= kComputingShare * watched_s;
}

std::optional<HangVerdict> HangWatch::look(std::vector<RankProgress> ranks) {
  for (RankProgress& rank : ranks) rank.computing = is_computing(rank);
  HangVerdict verdict = detect_hang(ranks, config_);
  if (!verdict.hangs()) {
    reported_any_ = false;
    return std::nullopt;
  }
  const bool said = reported_any_ && reported_ == verdict.suspects && (reported_certain_ || !verdict.certain);
  if (said) return std::nullopt;
  reported_any_ = true;
  reported_ = verdict.suspects;
  reported_certain_ = verdict.certain;
  return verdict;
}

std::vector<Straggler> HangWatch::new_stragglers(const std::vector<RankProgress>& ranks) {
  std::vector<Straggler> fresh;
  for (const Straggler& straggler : find_stragglers(ranks, config_.straggler_factor)) {
    if (named_stragglers_.insert(straggler.rank).second) fresh.push_back(straggler);
  }
  return fresh;
}

std::string report_text(const HangVerdict& verdict, const std::vector<RankProgress>& ranks) {
  std::string text = verdict.text + "\n\n";
  for (const RankProgress& rank : ranks) {
    text += "rank " + std::to_string(rank.rank) + " " +
            (rank.finished ? "has returned from its train loop" : standing_of(rank.progress)) + "\n";
  }
  return text;
}

}  // namespace paceline::policy
