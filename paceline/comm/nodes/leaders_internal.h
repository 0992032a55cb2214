// Leaders: what the first ranks of the nodes of a group tell each other beside the values that they exchange: which
// call is next, so that no values of different calls meet, and what has failed. A leader whose process ends is known
// by its connection, without any store.
//
// Each leader is connected to each other one. Threading: any thread, but wait() by one at a time. Nothing waits but it
// and connect(). Errors: CollectiveError where the leaders call different things; PeerLost, with
// the leaders that are gone or late.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/collective/board.h"
#include "paceline/collective/meeting.h"
#include "paceline/comm/nodes/first_failure_internal.h"
#include "paceline/core/posix/descriptor.h"

namespace paceline::comm {

class Leaders {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  /// Collective. `ranks`: of the leaders in the whole group, by node. `address`: where the others reach this machine.
  /// CollectiveError when they are not connected by the deadline.
  static std::shared_ptr<Leaders> connect(const collective::Bulletin& bulletin, size_t node, std::vector<int64_t> ranks,
                                          const std::string& address, Deadline deadline);
  /// Says goodbye: nobody misses this leader before it calls something.
  ~Leaders();
  Leaders(const Leaders&) = delete;
  Leaders& operator=(const Leaders&) = delete;

  /// This leader's next call. Every call of the group is announced, in the order that all ranks share.
  void announce(const collective::Fingerprint& call);
  /// All ranks of this leader's node have come to the call of that place among the announced ones, from 1 on.
  void announce_ready(uint64_t place);
  /// The ranks of this leader's node are done with a call that each carries out for itself.
  void announce_done(uint64_t place);
  /// Whether all have announced the call of that place, and are ready for it. `name`: of the call, for errors.
  bool agree(uint64_t place, const collective::Fingerprint& call, const std::string& name);

  /// The others learn it, as far as they are there.
  void tell(const FirstFailure& failure);
  /// This leader takes part no more.
  void leave(bool has_aborted);
  /// The ranks of this node for whom it waits in calls up to a place, for others who ask. Before anything else.
  using Awaited = std::function<std::vector<int64_t>(uint64_t place)>;
  void answer_with(Awaited awaited) { awaited_ = std::move(awaited); }
  /// All others shall answer for whom they wait in calls up to that place: those that are stopped cannot.
  void ask(uint64_t place);
  /// For want of whom, once they had the time to answer, nothing goes on; none where all have answered or are gone.
  std::optional<FirstFailure> silent(const std::string& name) const;
  /// The same, and else of those for whom this node (`own`) or the others wait, and else of leaders that have not
  /// announced the call of that place.
  std::optional<FirstFailure> late(uint64_t place, const std::vector<int64_t>& own, const std::string& name) const;
  /// What another has told, if one has.
  std::optional<FirstFailure> told() const;
  /// For want of whom nothing that needs all leaders can go on: of those that have ended, aborted or left.
  std::optional<FirstFailure> gone(const std::string& name) const;
  /// Of those that have ended or aborted.
  std::optional<FirstFailure> crashed(const std::string& name) const;
  /// The same for a call of that place that all have come to: those that have left, or are done with it, have done
  /// their part.
  std::optional<FirstFailure> gone(const std::string& name, uint64_t place) const;

  /// Hears what has come, without waiting.
  void look();
  /// Until something has come, somebody calls wake(), or the deadline.
  void wait(Deadline deadline);
  void wake() const;

 private:
  struct Other {
    size_t node = 0;
    Descriptor connection;
    bool has_ended = false;
    std::string incoming, outgoing;
    uint64_t announced = 0, ready = 0, done = 0;
    std::deque<collective::Fingerprint> calls;  // the last of those announced
    bool has_answered = false;
    std::vector<int64_t> awaited;  // by its answer
    std::string gone;              // why; "" while it is there
    bool has_left = false;         // when it had nothing to do
  };

  Leaders(size_t node, std::vector<int64_t> ranks);
  int64_t rank_of(const Other& other) const { return ranks_[other.node]; }
  void send(Other& other, char kind, std::string_view body);
  void flush(Other& other);
  void receive(Other& other);
  void understand(Other& other);
  void lose(Other& other, const std::string& why);
  std::optional<FirstFailure> gone(const std::string& name, const std::function<bool(const Other&)>& is_needed) const;
  FirstFailure missed(std::vector<int64_t> ranks, const std::string& name, const std::string& why) const;
  FirstFailure missed(const std::vector<const Other*>& others, const std::string& name, const std::string& why) const;

  Awaited awaited_;
  const size_t node_;
  const std::vector<int64_t> ranks_;  // by node
  const Descriptor wake_;

  mutable std::mutex mutex_;
  std::vector<Other> others_;
  std::optional<FirstFailure> told_;
  bool has_left_ = false;
};

}  // namespace paceline::comm
