// Relay: how values go through a group of several nodes: up to the first rank of each node, which is its leader,
// between the leaders, and down again.
//
// Up and down are collectives in the memory of a node, each way over a group of its own, so that neither waits for the
// other; between the leaders it is Gloo, once these have found that they mean the same call. What each rank does for
// itself, as in an all_to_all, goes by Gloo between all ranks, once all have come: then the ranks of a node wait for
// each other over a third group, and their leaders for other nodes, so that who ends meanwhile is missed at once. What
// is large comes in several steps: while one is between the leaders, the next goes up and the one before goes down.
// Steps keep their order on each of the three ways, and the calls too: the same on all ranks. Threading: start() by one
// at a time, abort() by any. After an error nothing goes on, and all ranks that can be reached name the same.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "paceline/collective/group.h"
#include "paceline/comm/backend_internal.h"
#include "paceline/comm/nodes/leaders_internal.h"

namespace c10d {
class Work;
}

namespace paceline::comm {

/// What a rank does for one piece of a call. The parts are the same on all ranks of a node, but what is between the
/// leaders is theirs alone.
struct RelayStep {
  std::optional<collective::Request> up;
  /// At leaders, once the way up has ended: what they call, given how much time is left.
  std::function<c10::intrusive_ptr<c10d::Work>(c10d::Backend& leaders, std::chrono::milliseconds left)> between;
  /// At leaders, after that.
  std::function<void()> then;
  std::optional<collective::Request> down;
  /// Of the last step, which has a way down; on all ranks, once that has ended: begins what each does for itself, and
  /// does not wait. It calls `done` in the end, in any thread, null for success. The call is over when all ranks of the
  /// node have done theirs.
  using Done = std::function<void(const std::exception_ptr& failure)>;
  std::function<void(Done done)> alone;
};

/// One call of all ranks.
struct RelayCall {
  collective::Fingerprint fingerprint;
  std::string name;     ///< "all_reduce number 7", for errors
  uint64_t number = 0;  ///< in the name, for those of the parts
  std::vector<RelayStep> steps;
  std::chrono::milliseconds timeout{};
  /// Called once, when all steps are over, by any thread; null for success. It calls neither of the groups.
  std::function<void(const std::exception_ptr& failure)> on_end;
};

/// What a leader has, beyond the other ranks.
struct LeadersWay {
  ConnectedBackend backend;
  std::shared_ptr<Leaders> leaders;
};

/// What a leader that has ended has sent before may be on its way for so long.
inline constexpr std::chrono::milliseconds kLastWords{2000};

class Relay : public std::enable_shared_from_this<Relay> {
 public:
  /// Of the ranks of this node.
  struct Ways {
    std::shared_ptr<collective::SharedGroup> up, down, ends;
  };
  /// `between`: empty where this rank is no leader.
  /// `flat`: of all ranks, which is aborted when something fails.
  Relay(int64_t rank, int64_t world_size, Ways ways, std::optional<LeadersWay> between, ConnectedBackend flat);
  /// What is under way fails.
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  /// False in a fork, where nothing of it may be used, and nothing is ended.
  bool is_at_home() const { return home_.is_here(); }
  bool is_leader() const { return between_.has_value(); }
  collective::SharedGroup& node() const { return *ways_.up; }
  const c10::intrusive_ptr<c10d::Backend>& flat() const { return flat_.handle; }
  /// UsageError in a fork.
  void refuse_forks() const;
  void set_timeout(std::chrono::milliseconds timeout);

  /// UsageError in a fork.
  void start(RelayCall call);
  /// Waits until what was started before is over, whether it ended well or not (what is told of that may still be on
  /// its way), and tells the others that this rank calls nothing more.
  void leave();
  /// What is to be thrown for a failure that was found elsewhere, of a call of this group: all ends for it.
  /// `is_certain`: nobody can know more of it. `missing`: for want of whom, as far as is known.
  std::exception_ptr fail(const std::exception& failure, const std::string& name, bool is_certain = false,
                          const std::vector<int64_t>& missing = {});
  /// Makes what waits, here and on the other ranks, fail, and what follows.
  void abort();

  /// What is to be called when the group has failed or ends, once, in a thread apart; at once where it has. Only while
  /// what is returned lives, and perhaps a moment longer.
  using OnBroken = std::function<void(const std::exception_ptr& failure)>;
  [[nodiscard]] std::shared_ptr<void> when_broken(OnBroken on_broken);
  bool is_broken() const { return broken() != nullptr; }
  /// Once, before anything is started: what waits for nobody of its node, as a message to another, hears of its failure
  /// too.
  void listen_to_node();

 private:
  struct Call;
  struct Pending;
  using Gate = std::atomic<bool>;

  bool goes_on(const RelayStep& step) const;
  void start_up(const RelayStep& step, const std::shared_ptr<Call>& call, const std::shared_ptr<Pending>& pending);
  void start_down(const RelayStep& step, const std::shared_ptr<Call>& call, const std::shared_ptr<Gate>& gate);
  void start_end(const std::shared_ptr<Call>& call, const std::shared_ptr<Gate>& gate);
  void begin_alone(const std::function<void(RelayStep::Done)>& alone, const std::shared_ptr<Call>& call,
                   const std::shared_ptr<Gate>& gate);
  bool begin_between(Pending& pending);
  void end_between(Pending& pending);
  bool may_begin(const Pending& pending);
  void hear(const Call* flying, std::chrono::steady_clock::time_point& gone_since);
  void fail_after_last_words(const std::optional<FirstFailure>& gone, std::chrono::steady_clock::time_point since,
                             std::chrono::steady_clock::time_point& gone_since);
  std::optional<FirstFailure> missed_alone();
  std::exception_ptr fail_between(const std::exception& failure, const std::string& name);
  void work();
  void break_off(const std::string& reason);
  void tell_watchers();
  void hear_node();
  std::exception_ptr broken() const;
  std::exception_ptr failed(const std::exception_ptr& failure, const std::string& name, uint64_t late = 0);
  std::exception_ptr fail_as_told(const FirstFailure& told);
  std::exception_ptr broken_by(const FirstFailure& first, const std::exception_ptr& own);
  FirstFailure ask_others(const FirstFailure& own, const std::string& name, uint64_t late) const;
  std::optional<FirstFailure> known_loss(const std::string& name, bool counts_left) const;
  std::optional<FirstFailure> known_loss_in_node(const std::string& name, bool counts_left) const;
  std::pair<std::string, uint64_t> first_awaited(const std::string& name, uint64_t place);

  const HomeProcess home_;
  const int64_t rank_;
  const int64_t world_size_;
  std::optional<LeadersWay> between_;
  ConnectedBackend flat_;

  std::atomic<bool> is_stopped_ = false;  // by this rank's own will
  std::mutex failure_mutex_;              // while the first failure is found; not for abort(), which waits for nobody
  mutable std::mutex broken_mutex_;
  std::exception_ptr broken_;
  std::vector<std::weak_ptr<OnBroken>> watchers_;  // with broken_mutex_

  std::mutex mutex_;
  std::deque<std::shared_ptr<Pending>> queue_;  // what the leader has to do between the nodes
  const std::shared_ptr<std::atomic<size_t>> unfinished_ = std::make_shared<std::atomic<size_t>>(0);  // calls
  bool is_ending_ = false;
  std::map<uint64_t, std::string> alone_;  // calls that ranks carry out for themselves: names by places, at leaders
  uint64_t calls_ = 0;
  std::thread worker_;  // at leaders

  const Ways ways_;
};

}  // namespace paceline::comm
