// KeyValueTable: the server's side of the key-value store, as a pure state machine.
//
// It takes StoreRequests (messages.h) and gives the replies that are due; a request that waits for keys is parked until
// they are there, its deadline passes or its generation is dropped. No clock, no thread, no channel: the controller's
// shell feeds it and sends what comes out. Each generation of each attempt has keys of its own. Not thread-safe.
// Memory: as much as the clients store; drop() frees it.
#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "paceline/core/clock.h"
#include "paceline/rpc/messages.h"

namespace paceline::rpc {

/// What is wrong with a request whose envelope has `value_bytes` bytes; nullopt when it can be executed.
std::optional<std::string> find_error(const StoreRequest& request, size_t value_bytes);

class KeyValueTable {
 public:
  /// Envelopes to send, each with the identity of the worker that it is for.
  using Replies = std::vector<Envelope>;

  /// Takes the StoreRequest in `request`. What is due: the reply to it, unless it has to wait, and the replies to those
  /// who waited for what it has set. A request that makes no sense is answered with the outcome "invalid".
  Replies handle(const Envelope& request, Time now);

  /// When expire() has something to do next; nullopt while nobody waits with a deadline.
  std::optional<Time> next_deadline() const;
  /// Answers with "timeout" those whose deadline is not after `now`.
  Replies expire(Time now);

  /// Forgets that generation of `attempt`, or all of them, and everything before. Those who wait there are answered
  /// with "closed", as is whoever asks later.
  Replies drop(Attempt attempt, Generation generation = kEveryGeneration);

  static constexpr Generation kEveryGeneration{std::numeric_limits<int64_t>::max()};

 private:
  using Place = std::pair<Attempt, Generation>;
  using WaiterId = uint64_t;

  struct Space {
    std::unordered_map<std::string, std::string> values;
    // Each waiter stands under one key that it still misses, so that a set() looks at few.
    std::unordered_map<std::string, std::set<WaiterId>> waiting;
  };
  struct Waiter {
    Identity identity;
    int64_t request = 0;
    StoreRequest wanted;
    std::optional<Time> deadline;
    std::string missing;  // the key that it stands under
  };

  Envelope execute(const Envelope& request, const StoreRequest& wanted, Space& space);
  /// The reply if all its keys are there or it does not want to wait; parks it otherwise.
  std::optional<Envelope> answer_or_park(Waiter waiter, Space& space, Time now);
  static Envelope answer(const Waiter& waiter, const Space& space);
  void park(Waiter waiter, Space& space);
  void wake(const std::string& key, Space& space, Replies& replies);
  Waiter take(WaiterId id);

  std::map<Place, Space> spaces_;
  std::map<WaiterId, Waiter> waiters_;
  std::set<std::pair<Time, WaiterId>> deadlines_;
  WaiterId last_waiter_ = 0;
  std::optional<Place> dropped_;  // this generation and all before it
};

}  // namespace paceline::rpc
