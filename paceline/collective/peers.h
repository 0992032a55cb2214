// Peers: the ranks of a group that share memory, as one of them sees them: their boards, their arenas and their lives.
//
// A rank changes its own board, then rings; whoever sleeps looks again. Every wait ends when the boards say so, when a
// peer that is waited for has ended or left, when somebody aborts, or at its deadline, whichever comes first. One that
// is stopped, by SIGSTOP for instance, is not waited for until then: one that runs may have reasons to be late, such as
// an evaluation, but what is stopped comes to nothing. Threading: wait() by the thread that carries out operations,
// sleep_for_mail() by the one that carries mail; everything else from any. Errors: PeerLost, with the ranks that are
// missing; CollectiveError after abort(), and AbortedFor where another rank has aborted for a reason.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "paceline/collective/arena.h"
#include "paceline/collective/meeting.h"
#include "paceline/core/peer_lost.h"
#include "paceline/core/posix/descriptor.h"

namespace paceline::collective {

using Deadline = std::chrono::steady_clock::time_point;

/// What bounds a wait, for errors.
inline constexpr const char* kTimeLimits = "(TorchConfig.timeout_s, or the group's own timeout)";

/// Until when a wait lasts, and after how long it fails if who is missing is stopped.
struct WaitLimits {
  Deadline deadline;
  std::chrono::duration<double> patience;
};

/// Another rank has aborted, and says why.
class AbortedFor : public CollectiveError {
 public:
  AbortedFor(const std::string& message, std::string reason)
      : CollectiveError(message, CollectiveCause::other_rank), reason_(std::move(reason)) {}
  /// As it was given to abort() there.
  const std::string& reason() const noexcept { return reason_; }

 private:
  std::string reason_;
};

/// They run, but have not come in time: why, others may know better.
class PeerLate : public PeerLost {
 public:
  using PeerLost::PeerLost;
};

/// How many of the user's threads wait for what is being carried out. While there are any, a wait tries before it
/// sleeps; otherwise the processor is needed for other work.
using Waiting = std::atomic<int>;

/// Of a rank: that nothing new can come from it, and for want of whom.
struct Loss {
  std::string why;               ///< "": there is none
  std::vector<int64_t> missing;  ///< names
};

class Peers {
 public:
  /// `own`: this rank's memory, `meeting`: with those who shall be the group, numbered here as they come there.
  Peers(int rank, std::shared_ptr<Arena> own, Meeting meeting);
  /// Tells the others that this rank has left.
  ~Peers();
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  int rank() const { return rank_; }
  /// What the rank is called in errors: its number in the whole group, of which these may be the ranks of one node.
  int name_of(int rank) const { return names_[static_cast<size_t>(rank)]; }
  int size() const { return static_cast<int>(arenas_.size()); }
  const std::shared_ptr<Arena>& arena() const { return own_; }
  Board& board() const { return own_->board(); }
  const ArenaView& arena_of(int rank) const { return *arenas_[static_cast<size_t>(rank)]; }
  Board& board_of(int rank) const { return arena_of(rank).board(); }
  /// As this process sees it; 0 where it cannot.
  int64_t process_of(int rank) const { return processes_[static_cast<size_t>(rank)]; }

  /// Wakes the others after this rank's board has changed.
  void ring() const;
  /// Wakes who carries mail at a rank, this one too.
  void ring_for_mail(int rank) const;
  /// Until somebody has rung for mail since `heard`, or the deadline. `heard`: rings before the look that found
  /// nothing, during which `is_asleep` was set.
  void sleep_for_mail(uint32_t heard, Deadline deadline) const;
  /// Whether its process is stopped, but by no debugger; false where it cannot be seen.
  bool is_stopped(int rank) const;
  /// Why nothing new can come from a rank any more, if nothing can.
  Loss loss_of(int rank) const;
  /// Until `is_there` of each other rank's board. `what`: "all_reduce number 7", for errors.
  void wait(const std::function<bool(const Board&)>& is_there, const WaitLimits& limits, const Waiting& waiting,
            const std::string& what);
  /// Until `is_there`, of which this rank's wake_own() tells: the others wait for that.
  void wait_for_own(const std::atomic<bool>& is_there, std::chrono::duration<double> patience, const std::string& what);
  void wake_own() const;
  /// Throws when a rank has given up, or aborted, and `is_there` does not hold of its board.
  void check_given_up(const std::function<bool(const Board&)>& is_there, const std::string& what) const;
  /// Throws Lost for want of `missing`. `why`: what is known of them.
  template <class Lost = PeerLost>
  [[noreturn]] void fail(const std::vector<int>& missing, const std::string& what, const std::string& why) const;
  /// Of a wait that is under way: the names of the others of whose boards `is_there` does not hold.
  std::vector<int64_t> names_without(const std::function<bool(const Board&)>& is_there) const;
  /// Throws when nothing new can come from a rank any more; `counts_left`: also where it has left. `what`: for errors.
  void check_gone(const std::string& what, bool counts_left) const;
  /// Whether another rank may be in the midst of an operation that this rank has announced, or come to it yet.
  bool may_carry_out(uint64_t number) const;
  /// Leaves word that `missing`, by their names, are missed here: that is why this rank has ended, should it do so.
  void miss(const std::vector<int64_t>& missing);
  /// The same, and tells the others that an operation has failed here, so that they do not wait for this rank.
  void give_up(const std::vector<int64_t>& missing);
  /// Makes the wait that is under way here, and those of all ranks, fail, from now on. `reason`: as SharedGroup has it.
  void abort(const std::string& reason);
  /// Tells the others that nothing new comes from this rank.
  void leave() const;
  bool is_aborted() const { return aborted_; }
  /// Called from now on, in a thread of this class, when another rank has given up or aborted: for who waits for nobody
  /// here. It must not wait.
  void when_given_up(std::function<void()> told);

 private:
  void watch();
  void tell_watchers() const;
  void sleep_until(const std::function<bool()>& is_enough, const std::function<bool(const Board&)>& is_there,
                   const WaitLimits& limits, const std::string& what);
  uint64_t missed_by(const Board& board) const;
  std::vector<int> ranks_of(uint64_t bits) const;
  void check_missing(const std::function<bool(const Board&)>& is_there, const std::string& what, bool is_late) const;
  void check_stopped(const std::function<bool(const Board&)>& is_there, const std::string& what) const;

  const std::vector<int> names_;  // by rank
  const int rank_;
  const int named_;  // ranks in all
  const std::shared_ptr<Arena> own_;
  std::vector<const ArenaView*> arenas_;  // by rank
  std::vector<int64_t> processes_;        // by rank
  std::vector<Member> members_;
  std::unique_ptr<std::atomic<bool>[]> lost_;  // by rank
  std::mutex abort_mutex_;
  std::atomic<bool> aborted_ = false;
  int spins_ = 0;
  std::mutex told_mutex_;
  std::function<void()> told_;
  Descriptor stop_;
  std::thread watcher_;
};

/// "is stopped (state T)", "has ended", "runs": what a process does, for messages. "" where it cannot be seen.
std::string state_of_process(int64_t process);

}  // namespace paceline::collective
