// SharedGroup: the collectives of ranks that share memory, on plain bytes.
//
// Operations are carried out one after the other, in the order of their calls, which is the same on all ranks. What is
// small is published in a slot when it is called, and read by whoever waits; what is large is read, and reduced, where
// it is: in the arenas, by the kernel's process_vm_readv(), or piece by piece through staging memory where it does not
// allow that. Whoever waits for an operation carries it out; for what nobody waits for yet there is a thread.
// What reads the results of an earlier operation is shown to the others once these are there.
// The order of summation is that of the ranks, whatever the way: the bits are the same on all ranks and in all runs.
// Threading: any thread may call. start() by one at a time, for the order's sake.
// Errors: PeerLost, CollectiveError for calls that differ among ranks, AbortedFor. After an error the group is broken,
// and every operation fails with it. A fork of the process takes no part: its calls are UsageErrors, and it ends
// nothing.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "paceline/collective/mail.h"
#include "paceline/collective/patience.h"
#include "paceline/collective/peers.h"
#include "paceline/collective/request.h"
#include "paceline/core/posix/forks.h"

namespace paceline::collective {

/// How far a call has come; shared by the caller and the group.
class Operation;
class SharedGroup;

/// How the ranks of a group are together: which share memory, and that of this rank's node as a group.
struct RanksByNode {
  std::vector<std::vector<int>> nodes;  ///< all ranks, each list in order; the same on all ranks
  std::shared_ptr<SharedGroup> node;    ///< of the list with this rank; its errors name ranks as the whole group does
  /// Where a rank has no memory to share: which, and why; then there are no nodes. "" as a rule.
  std::string missing;
};

class SharedGroup {
 public:
  /// Finds out who shares memory; collective. `node`: ranks of other names share none, even where they could.
  /// CollectiveError when they cannot meet in time. `may_read_others`: whether process_vm_readv() is tried.
  static RanksByNode meet(const Bulletin& bulletin, int rank, int world_size, std::chrono::milliseconds timeout,
                          const std::string& node = "", bool may_read_others = true);
  /// Meets the others; collective. Null where not all of them are on this machine: then no rank has such a group.
  static std::shared_ptr<SharedGroup> create(const Bulletin& bulletin, int rank, int world_size,
                                             std::chrono::milliseconds timeout, bool may_read_others = true);

  explicit SharedGroup(std::unique_ptr<Peers> peers);
  /// As end().
  ~SharedGroup();
  SharedGroup(const SharedGroup&) = delete;
  SharedGroup& operator=(const SharedGroup&) = delete;

  int rank() const { return peers_->rank(); }
  int size() const { return peers_->size(); }

  /// Calls a collective; what it gives is there once wait() has returned, or `on_end` was called.
  /// UsageError in a fork.
  std::shared_ptr<Operation> start(Request request);
  /// Carries it out, or waits for who does. Throws what it has failed with.
  void wait(const std::shared_ptr<Operation>& operation);
  /// Waits while others carry it out, `time` at most; false when it is not over by then, and goes on.
  bool wait_for(const std::shared_ptr<Operation>& operation, std::chrono::milliseconds time);
  /// Carries it out in the background: nobody may call wait() soon.
  void push(const std::shared_ptr<Operation>& operation);
  static bool is_over(const Operation& operation);
  /// Sets the gate of a request, of an operation that may be over.
  void open(std::atomic<bool>& gate);
  /// Waits until nothing that was called before writes to this memory any more, whether it ended well or not. The
  /// operation that is waited for is told (`on_wait`). UsageError in a fork.
  void settle(const void* memory, uint64_t bytes);
  /// The same of all memory.
  void settle();

  /// Memory that all ranks can reach: what is in it is reduced in place. Blocks may outlive the group.
  const std::shared_ptr<Arena>& arena() const { return peers_->arena(); }

  /// Messages between two ranks; they need no order among the collectives. UsageError in a fork.
  Mail& mail();

  /// Before the first operation.
  void set_patience(const Patience& patience) {
    patience_ = patience;
    mail_->set_patience(patience.least());
  }

  /// What is under way fails, and no thread of the group's runs any more; nothing may be called after it. A worker that
  /// calls it, by what an operation has returned, ends soon.
  void end();
  /// Waits for all that was called, and tells the others that this rank calls nothing more. UsageError in a fork.
  void leave();
  /// Ranks that have not come to the first operation that is not over, by their names; none where that is of a call
  /// behind `place`.
  std::vector<int64_t> awaited(uint64_t place) const;
  /// Throws as an operation would for want of a rank that has ended, aborted or given up, or, with `counts_left`, left,
  /// if there is one. `what`: for errors.
  void check_gone(const std::string& what, bool counts_left) const { peers_->check_gone(what, counts_left); }
  /// As Peers has it: `told` is called when another rank has given up or aborted.
  void when_given_up(std::function<void()> told) { peers_->when_given_up(std::move(told)); }
  /// Makes what waits, here and on the other ranks, fail, and what follows. `reason`: what the others get as
  /// AbortedFor, kReasonBytes - 1 at most; "": that this rank is missing.
  void abort(const std::string& reason = "");

  /// UsageError in a process that this one has forked.
  void refuse_forks(const char* operation) const;

 private:
  void push_locked(const Operation& operation);
  void call_worker();
  void settle(const std::function<bool(const Request&)>& is_meant);
  void announce_ready();
  bool has_room(uint64_t number) const;
  bool awaits_earlier(const Request& request) const;
  void announce(const Operation& operation);
  void run_front(std::unique_lock<std::mutex>& lock, bool is_worker = false);
  void take_out(const Operation& operation, const WaitLimits& limits);
  void wait_at_gate(Operation& operation, std::unique_lock<std::mutex>& lock);
  void wait_for_room(const Operation& operation, const WaitLimits& limits, std::unique_lock<std::mutex>& lock);
  void work();

  const HomeProcess home_;
  const std::unique_ptr<Peers> peers_;
  const std::unique_ptr<Mail> mail_;
  Patience patience_;          // of the mutex
  bool reads_others_ = false;  // all ranks may use process_vm_readv() on all others

  Waiting waiting_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable changed_;  // for who waits for an operation that another thread carries out
  std::condition_variable work_;     // for the workers
  std::deque<std::shared_ptr<Operation>> queue_;
  uint64_t called_ = 0;
  uint64_t announced_ = 0;
  uint64_t pushed_ = 0;     // up to this number the workers carry out
  bool is_driven_ = false;  // a thread carries out the first of the queue
  bool is_ending_ = false;
  std::exception_ptr broken_;
  const std::shared_ptr<std::atomic<bool>> is_gone_ = std::make_shared<std::atomic<bool>>(false);
  std::vector<std::thread> workers_;  // one, but for those who wait in what an on_end has returned
  int idle_workers_ = 0;
};

}  // namespace paceline::collective
