#include "paceline/policy/hang_detection.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "paceline/policy/failure_text.h"

namespace paceline::policy {
namespace {

// Steps or reports after which the pauses between signs of progress are known well enough.
constexpr int64_t kMarksToKnow = 3;
// The same of steps that are no marks: what an optimizer does before training is among them.
constexpr int64_t kStepsToKnow = 10;
// Of one processor, on average since the last sign of progress: a thread that waits uses nearly nothing.
constexpr double kComputingShare = 0.3;
// What passes between two looks at most, in seconds, while the driver and its workers all run.
constexpr double kLongestLook = 3;

constexpr const char* kDoTheyFit =
    "; do all ranks call the same collectives, with the same shapes and types? DebugConfig.check_collectives compares "
    "them";

using rpc::GroupCounts;

bool is_under_way(const GroupCounts& group) {
  return group.done < group.begun;
}

bool waits(const RankProgress& rank) {
  return !rank.finished && std::ranges::any_of(rank.progress.groups, is_under_way);
}

// Has not come to the collective in which a rank with these counts waits: the oldest that has not ended. A rank with
// room for more groups shows all that it has made. Otherwise one that it does not show is one of many that were, or
// are; nobody knows how far it has come there.
bool is_missed_by(const RankProgress& rank, const GroupCounts& waited) {
  const rpc::AllGroupCounts& groups = rank.progress.groups;
  const auto own = std::ranges::find(groups, waited.group, &GroupCounts::group);
  if (own == groups.end()) return groups.size() < ProgressWord::kGroups;
  return own->begun <= waited.done;
}

bool has_marks(const RankProgress& rank) {
  return rank.progress.marks >= kMarksToKnow;
}

// Steps that are no marks tell how long its pauses are, too.
bool has_known_pauses(const RankProgress& rank) {
  return has_marks(rank) || rank.progress.step >= kStepsToKnow;
}

// How long nobody may stand still: what the slowest pause so far allows.
double patience(const std::vector<RankProgress>& ranks, const DebugConfig& config) {
  double longest = 0;
  bool known = true;
  for (const RankProgress& rank : ranks) {
    longest = std::max(longest, rank.progress.longest_pause_s);
    known = known && (rank.finished || has_known_pauses(rank));
  }
  const double adapted = std::max(config.hang_floor_s, config.hang_factor * longest);
  return known ? adapted : std::max(adapted, config.hang_start_s);
}

std::string collective_text(const GroupCounts& group) {
  return group.collective + " " + std::to_string(group.done + 1) +
         (group.group > 1 ? " of group " + std::to_string(group.group) : "");
}

// The collective that holds the rank up. In several groups it may have one under way: those that somebody has not come
// to wait for that rank, and what that rank waits for is what everybody has come to.
std::string collective_text(const RankProgress& rank, const std::vector<RankProgress>& ranks) {
  const GroupCounts* first = nullptr;
  for (const GroupCounts& group : rank.progress.groups) {
    if (!is_under_way(group)) continue;
    if (first == nullptr) first = &group;
    if (std::ranges::none_of(ranks, [&](const RankProgress& other) { return is_missed_by(other, group); })) {
      return collective_text(group);
    }
  }
  return collective_text(*first);
}

// "ranks 0, 2-3 wait in all_reduce 812", for each collective, the one with most ranks first.
std::string waiting_text(const std::vector<RankProgress>& ranks) {
  std::map<std::string, std::vector<int64_t>> by_collective;
  for (const RankProgress& rank : ranks) {
    if (waits(rank)) by_collective[collective_text(rank, ranks)].push_back(rank.rank);
  }
  std::vector<std::pair<std::string, std::vector<int64_t>>> groups(by_collective.begin(), by_collective.end());
  std::ranges::stable_sort(groups, std::greater{}, [](const auto& group) { return group.second.size(); });
  std::string text;
  for (const auto& [collective, members] : groups) {
    text += (text.empty() ? "" : "; ") + ranks_text(members) + (members.size() == 1 ? " waits in " : " wait in ") +
            collective;
  }
  return text;
}

// "the train loop of rank 1 has returned", "the train loops of ranks 1-2 have returned".
std::string returned_text(const std::vector<int64_t>& ranks) {
  return (ranks.size() == 1 ? "the train loop of " : "the train loops of ") + ranks_text(ranks) +
         (ranks.size() == 1 ? " has returned" : " have returned");
}

bool is_missing(const RankProgress& rank, const std::vector<RankProgress>& ranks) {
  return std::ranges::any_of(ranks, [&](const RankProgress& other) {
    return !other.finished && std::ranges::any_of(other.progress.groups, [&](const GroupCounts& group) {
      return is_under_way(group) && is_missed_by(rank, group);
    });
  });
}

// The word of a rank whose loop had not returned yet says nothing of what it has begun since.
bool has_left(const RankProgress& rank) {
  return rank.finished && rank.progress.phase == Phase::ended && rank.progress.idle_s >= kDeadlockSeconds;
}

bool can_never_join(const RankProgress& gone, const RankProgress& waiting) {
  return has_left(gone) && std::ranges::any_of(waiting.progress.groups, [&](const GroupCounts& group) {
           return is_under_way(group) && is_missed_by(gone, group);
         });
}

HangVerdict judge_deadlock(const std::vector<RankProgress>& ranks) {
  HangVerdict verdict;
  std::vector<RankProgress> waiting;
  for (const RankProgress& rank : ranks) {
    if (!waits(rank) || rank.progress.idle_s < kDeadlockSeconds) continue;
    bool never = false;
    for (const RankProgress& other : ranks) {
      if (!can_never_join(other, rank)) continue;
      never = true;
      if (std::ranges::find(verdict.suspects, other.rank) == verdict.suspects.end()) {
        verdict.suspects.push_back(other.rank);
      }
    }
    if (never) waiting.push_back(rank);
  }
  if (waiting.empty()) return verdict;
  std::ranges::sort(verdict.suspects);
  const bool one = verdict.suspects.size() == 1;
  verdict.deadlock = true;
  verdict.witness = waiting.front().rank;
  verdict.text = waiting_text(waiting) + ", which " + ranks_text(verdict.suspects) +
                 " can never join: " + (one ? "its train loop has returned" : "their train loops have returned") +
                 "; every rank must call the same collectives";
  return verdict;
}

// A rank whose collective could only be ended by what others have under way, and all have left. One that computes may
// still be at work on what it has of theirs.
HangVerdict judge_alone(const std::vector<RankProgress>& ranks, const DebugConfig& config) {
  const double enough = std::clamp(config.hang_floor_s, kDeadlockSeconds, kAloneSeconds);
  const RankProgress* alone = nullptr;
  std::vector<int64_t> gone;
  for (const RankProgress& rank : ranks) {
    if (rank.seen_s < enough) return {};
    if (has_left(rank) && std::ranges::none_of(rank.progress.groups, is_under_way)) {
      gone.push_back(rank.rank);
    } else if (alone == nullptr && waits(rank) && !rank.computing) {
      alone = &rank;
    } else {
      return {};
    }
  }
  if (alone == nullptr || gone.empty()) return {};
  return {.text = waiting_text({*alone}) + " for nobody: " + returned_text(gone) + ", with no collective under way" +
                  kDoTheyFit,
          .suspects = gone,
          .deadlock = true,
          .witness = alone->rank};
}

HangVerdict judge_standing(const std::vector<RankProgress>& ranks, const DebugConfig& config, double limit) {
  HangVerdict verdict{.certain = false};
  std::string text;
  for (const RankProgress& rank : ranks) {
    if (rank.finished || waits(rank) || rank.progress.idle_s < limit) continue;
    const bool missing = is_missing(rank, ranks);
    if (!missing && !has_marks(rank)) continue;
    verdict.suspects.push_back(rank.rank);
    // A checkpoint takes as long as the storage does, also while others are in the next step already.
    const bool stores = rank.progress.phase == Phase::checkpoint;
    const bool holds_up_others = missing && !rank.computing;
    verdict.certain |= !stores && (holds_up_others || rank.progress.idle_s >= std::max(limit, config.hang_start_s));
    if (verdict.suspects.size() <= 3) {
      text += (text.empty() ? "" : "; ") + ("rank " + std::to_string(rank.rank)) + " " + standing_of(rank.progress) +
              (rank.computing ? ", computing" : ", asleep");
    } else if (verdict.suspects.size() == 4) {
      text += "; …";
    }
  }
  if (verdict.suspects.empty()) return verdict;
  verdict.witness = verdict.suspects.front();
  const std::string others = waiting_text(ranks);
  verdict.text = ranks_text(verdict.suspects) + (verdict.suspects.size() == 1 ? " makes" : " make") +
                 " no progress: " + text + (others.empty() ? "" : "; " + others);
  return verdict;
}

HangVerdict judge_waiting(const std::vector<RankProgress>& ranks, double limit) {
  HangVerdict verdict;
  std::vector<int64_t> finished;
  std::map<std::string, std::vector<int64_t>> by_collective;
  for (const RankProgress& rank : ranks) {
    if (rank.finished) {
      finished.push_back(rank.rank);
    } else if (!waits(rank) || rank.progress.idle_s < limit) {
      return verdict;
    } else {
      by_collective[collective_text(rank, ranks)].push_back(rank.rank);
    }
  }
  if (by_collective.empty()) return verdict;
  const std::string waiting = waiting_text(ranks);
  if (!finished.empty()) {
    std::vector<int64_t> missing;
    for (const RankProgress& rank : ranks) {
      if (rank.finished && is_missing(rank, ranks)) missing.push_back(rank.rank);
    }
    verdict.suspects = missing.empty() ? finished : missing;
    verdict.witness = std::ranges::find_if(ranks, waits)->rank;
    verdict.text = waiting + (missing.empty() ? ", and none gets on: " + returned_text(finished) + kDoTheyFit
                                              : ", but " + returned_text(missing) + " without; " +
                                                    "every rank must call the same collectives");
  } else if (by_collective.size() > 1) {
    const auto most = std::ranges::max_element(by_collective, {}, [](const auto& one) { return one.second.size(); });
    for (const auto& [collective, members] : by_collective) {
      if (collective != most->first) verdict.suspects.insert(verdict.suspects.end(), members.begin(), members.end());
    }
    std::ranges::sort(verdict.suspects);
    verdict.witness = verdict.suspects.front();
    verdict.text = "the ranks wait for each other in different collectives: " + waiting +
                   "; every rank must call the same ones in the same order";
  } else {
    verdict.text = waiting + ", and none gets on: the connections between them are stuck";
  }
  return verdict;
}

}  // namespace

std::string standing_of(const rpc::ProcessProgress& progress) {
  if (const auto waited = std::ranges::find_if(progress.groups, is_under_way); waited != progress.groups.end()) {
    return "waits in " + collective_text(*waited) + " for " + seconds_text(progress.idle_s);
  }
  const std::string where = progress.step > 0
                                ? "step " + std::to_string(progress.step) + " (" + to_string(progress.phase) + ")"
                                : "the phase " + to_string(progress.phase);
  return "is in " + where + " for " + seconds_text(progress.idle_s);
}

HangVerdict detect_hang(const std::vector<RankProgress>& ranks, const DebugConfig& config) {
  if (ranks.empty()) return {};
  HangVerdict verdict = judge_deadlock(ranks);
  if (!verdict.hangs()) verdict = judge_alone(ranks, config);
  if (verdict.hangs()) return verdict;
  const double limit = patience(ranks, config);
  verdict = judge_standing(ranks, config, limit);
  return verdict.hangs() ? verdict : judge_waiting(ranks, limit);
}

std::vector<Straggler> find_stragglers(const std::vector<RankProgress>& ranks, double factor) {
  if (ranks.size() < 2) return {};
  std::vector<double> times;
  for (const RankProgress& rank : ranks) {
    if (rank.progress.steps_timed < kStepsToCompare) return {};
    times.push_back(rank.progress.step_s);
  }
  std::ranges::sort(times);
  // Without one that stands at or before it, the others' median is the next.
  const double* const middle = times.data() + (times.size() - 1) / 2;
  std::vector<Straggler> found;
  for (const RankProgress& rank : ranks) {
    const double step_s = rank.progress.step_s;
    const double median_s = step_s <= *middle ? middle[1] : *middle;
    if (median_s > 0 && step_s >= factor * median_s && step_s - median_s >= kLeastDelay) {
      found.push_back({.rank = rank.rank, .step_s = step_s, .median_s = median_s});
    }
  }
  std::ranges::sort(found, std::greater{}, &Straggler::step_s);
  return found;
}

std::string slow_text(const std::vector<Straggler>& stragglers) {
  constexpr size_t kNamed = 3;
  if (stragglers.empty()) return "";
  std::string text = stragglers.size() == 1 ? "slow: rank " : "slow: ranks ";
  for (size_t i = 0; i < std::min(kNamed, stragglers.size()); ++i) {
    char times[40];
    std::snprintf(times, sizeof times, " (%.1fx)", stragglers[i].step_s / stragglers[i].median_s);
    text.append(i == 0 ? "" : ", ").append(std::to_string(stragglers[i].rank)).append(times);
  }
  if (stragglers.size() <= kNamed) return text;
  return text + " and " + std::to_string(stragglers.size() - kNamed) + " more";
}

void HangWatch::forget() {
  standing_.clear();
  named_stragglers_.clear();
  reported_any_ = false;
}

void HangWatch::compare_with_before(RankProgress& rank) {
  const rpc::ProcessProgress& now = rank.progress;
  const auto [found, is_new] = standing_.try_emplace(rank.rank);
  Standing& standing = found->second;
  if (is_new || now.idle_s < standing.last_idle_s) {
    standing = {.idle_s = now.idle_s, .cpu_s = now.cpu_s, .last_idle_s = now.idle_s};
  }
  standing.seen_s += std::min(now.idle_s - standing.last_idle_s, kLongestLook);
  standing.last_idle_s = now.idle_s;
  rank.seen_s = standing.seen_s;
  const double watched_s = now.idle_s - standing.idle_s;
  rank.computing = watched_s > 0 && now.cpu_s - standing.cpu_s >= kComputingShare * watched_s;
}

std::optional<HangVerdict> HangWatch::look(std::vector<RankProgress> ranks, bool output_is_held_up) {
  for (RankProgress& rank : ranks) compare_with_before(rank);
  HangVerdict verdict = detect_hang(ranks, config_);
  if (!verdict.hangs() || (output_is_held_up && !verdict.deadlock)) {
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

}  // namespace paceline::policy
