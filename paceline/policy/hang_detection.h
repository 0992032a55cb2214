// Tells a hang from slow training, by the progress that each rank noted last. No clock and no I/O.
//
// Evidence, in this order (docs/diagnosis.md):
// 1. A deadlock, for which no patience is needed. A rank's train loop has returned, and others wait in a collective
// that
//    it has not begun: it can never come. Or a rank waits alone: all others' train loops have returned, and nothing of
//    theirs is under way that it could wait for. Their calls have not fitted together, in their shapes for instance.
// 2. A rank that is in no collective makes no progress, although it has made steps before or others wait for it in a
//    collective that it has not begun.
// 3. Every rank waits in a collective and none gets on: a rank's train loop has returned without it, the ranks wait in
//    different ones, or the network between them is stuck.
// A rank that merely has no steps to show is never hung. While any rank that others could be waiting for makes
// progress, nobody is.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "paceline/core/config/debug_config.h"
#include "paceline/rpc/messages.h"

namespace paceline::policy {

/// One rank, as its agent read it.
struct RankProgress {
  int64_t rank = 0;
  rpc::ProcessProgress progress;
  /// Its train loop has returned.
  bool finished = false;
  /// It has used its processor for most of the time since its last progress.
  bool computing = false;
  /// For how long it was seen to stand as it does. Time in which nobody looked, as when the whole machine slept, is not
  /// in it.
  double seen_s = 0;
};

struct HangVerdict {
  /// Nobody hangs: "".
  std::string text;
  /// Ranks that the others wait for, or that hang by themselves; of a mismatch those in the minority.
  std::vector<int64_t> suspects;
  /// Worth ending the group for. False, for hang_start_s, of ranks that compute and may be slow only, and of ranks that
  /// nobody waits for: one that sleeps may wait for a file, or for a program that evaluates. Always false of ranks in
  /// the phase checkpoint.
  bool certain = true;
  /// It cannot go on, whatever anybody waits for.
  bool deadlock = false;
  /// Whose stack says most, -1 for nobody's: a rank that keeps others waiting, or that waits for one that has returned.
  int64_t witness = -1;

  bool hangs() const { return !text.empty(); }
};

/// How long a deadlock must have stood still: not needed as proof, but what is still on its way has arrived then.
inline constexpr double kDeadlockSeconds = 2;
/// How long a rank must have waited alone: of the collective that the others have ended, parts may still be in the
/// buffers of its connections, which take much less than this even on a machine without a free processor.
/// DebugConfig.hang_floor_s where that is less.
inline constexpr double kAloneSeconds = 15;

/// `ranks`: all of the group.
HangVerdict detect_hang(const std::vector<RankProgress>& ranks, const DebugConfig& config);

/// "is in step 12 (data) for 41 s", "waits in all_reduce 812 for 41 s".
std::string standing_of(const rpc::ProcessProgress& progress);

/// A rank whose steps take `factor` times the others' median or more.
struct Straggler {
  int64_t rank = 0;
  double step_s = 0;
  double median_s = 0;

  bool operator==(const Straggler&) const = default;
};

/// Slowest first; nobody before every rank has made `kStepsToCompare` steps, nor whose steps take less than
/// `kLeastDelay` seconds longer: on a busy machine the scheduler alone causes that much.
std::vector<Straggler> find_stragglers(const std::vector<RankProgress>& ranks, double factor);
inline constexpr int64_t kStepsToCompare = 20;
inline constexpr double kLeastDelay = 0.005;
/// "slow: rank 3 (2.1x)", "slow: ranks 3 (2.1x), 5 (1.6x), 0 (1.5x) and 4 more"; "" for none.
std::string slow_text(const std::vector<Straggler>& stragglers);

/// Remembers between two readings of the ranks' progress what detect_hang() cannot see in one: which ranks compute, and
/// what has been reported already. Not thread-safe.
class HangWatch {
 public:
  explicit HangWatch(DebugConfig config) : config_(std::move(config)) {}

  /// A new worker group.
  void forget();
  /// A hang that was not reported yet, or not yet as certain. While workers wait for a reader of what they write, only
  /// a deadlock is one.
  std::optional<HangVerdict> look(std::vector<RankProgress> ranks, bool output_is_held_up = false);
  /// Slow ranks that were not named yet in this group.
  std::vector<Straggler> new_stragglers(const std::vector<RankProgress>& ranks);

 private:
  // A rank at the first look after its last sign of progress.
  struct Standing {
    double idle_s = 0;
    double cpu_s = 0;
    double last_idle_s = 0;
    double seen_s = 0;
  };

  void compare_with_before(RankProgress& rank);

  const DebugConfig config_;
  std::map<int64_t, Standing> standing_;
  std::vector<int64_t> reported_;
  bool reported_any_ = false;
  bool reported_certain_ = false;
  std::set<int64_t> named_stragglers_;
};

}  // namespace paceline::policy
