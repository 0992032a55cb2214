// Relay: how values go through a group of several nodes: up to the first rank of each node, which is its leader,
// between the leaders, and down again.
//
// Up and down are collectives in the memory of a node, each way over a group of its own, so that neither waits for the
// other; between the leaders it is Gloo. What is large comes in several steps: while one is between the leaders, the
// next goes up and the one before goes down. Steps keep their order on each of the three ways, and the calls too: the
// same on all ranks. Threading: start() by one at a time, abort() by any. After an error nothing goes on.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "paceline/collective/group.h"
#include "paceline/comm/backend_internal.h"
#include "paceline/comm/first_failure_internal.h"

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
};

class Relay {
 public:
  using OnEnd = std::function<void(const std::exception_ptr& failure)>;

  /// `leaders`: empty where this rank is no leader.
  Relay(std::shared_ptr<collective::SharedGroup> up, std::shared_ptr<collective::SharedGroup> down,
        std::optional<ConnectedBackend> leaders, std::unique_ptr<FirstFailure> first);
  /// What is under way fails.
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  /// False in a fork, where nothing of it may be used, and nothing is ended.
  bool is_at_home() const { return home_.is_here(); }
  bool is_leader() const { return leaders_.has_value(); }
  collective::SharedGroup& node() const { return *up_; }
  void set_timeout(std::chrono::milliseconds timeout);

  /// `on_end`: called once, when all steps are over, by any thread; null for success. UsageError in a fork.
  void start(std::vector<RelayStep> steps, std::chrono::milliseconds timeout, OnEnd on_end);
  /// Makes what waits, here and on the other ranks, fail, and what follows.
  void abort();

 private:
  struct Call;
  struct Pending;

  bool goes_on(const RelayStep& step) const;
  void start_up(const RelayStep& step, const std::shared_ptr<Call>& call, const std::shared_ptr<Pending>& pending);
  void start_down(const RelayStep& step, const std::shared_ptr<Call>& call);
  bool begin_between(Pending& pending);
  void end_between(Pending& pending);
  void work();
  void break_off() const;
  std::exception_ptr broken() const;
  std::exception_ptr failed(const std::exception_ptr& failure);

  const HomeProcess home_;
  const std::optional<ConnectedBackend> leaders_;
  const std::unique_ptr<FirstFailure> first_;

  std::atomic<bool> is_stopped_ = false;  // by this rank's own will
  mutable std::mutex failure_mutex_;      // not for abort(), which must not wait for the store
  std::exception_ptr broken_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Pending>> queue_;  // what the leader has to do between the nodes
  bool is_ending_ = false;
  std::thread worker_;  // at leaders

  // Last, so that what they end still finds all else.
  const std::shared_ptr<collective::SharedGroup> up_, down_;
};

}  // namespace paceline::comm
