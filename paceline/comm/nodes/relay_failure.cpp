// How a group of several nodes ends: the first failure, for which all ranks end, and who is missing, by the word of
// those who know most.
#include <system_error>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <utility>

#include "paceline/comm/callback_threads_internal.h"
#include "paceline/comm/failure_internal.h"
#include "paceline/comm/nodes/relay_internal.h"
#include "paceline/core/error.h"
#include "paceline/core/peer_lost.h"

namespace paceline::comm {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

namespace {

// Processes of one node hear of the end of another within milliseconds, and their leader tells the others.
constexpr milliseconds kPatience{1000};
constexpr milliseconds kLook{10};

std::exception_ptr stopped() {
  return std::make_exception_ptr(CollectiveError("the group was aborted", CollectiveCause::stopped));
}

// What another rank of the node, or another leader, has told.
std::optional<FirstFailure> told_in(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const collective::AbortedFor& aborted) {
    const auto told = FirstFailure::decode(aborted.reason());
    return told.ok() ? std::optional(*told) : std::nullopt;
  } catch (...) {
    return std::nullopt;
  }
}

}  // namespace

std::exception_ptr Relay::broken() const {
  if (is_stopped_) return stopped();
  const std::lock_guard lock(broken_mutex_);
  return broken_;
}

// What is thrown for `failure`. The first one ends everything, here and elsewhere. `late`: the place of the call, where
// it may be that somebody has not come to it; else 0.
std::exception_ptr Relay::failed(const std::exception_ptr& failure, const std::string& name, uint64_t late) {
  const std::lock_guard lock(failure_mutex_);
  if (const std::exception_ptr before = broken()) return before;
  if (const auto told = told_in(failure)) return broken_by(*told, nullptr);
  const FirstFailure own = first_failure_in(failure);
  if (own.is_certain) return broken_by(own, failure);
  const auto [asked, place] = first_awaited(name, late);
  const FirstFailure found = ask_others(own, asked, place);
  if (is_stopped_) return stopped();
  return broken_by(found, found.is_certain ? nullptr : failure);
}

std::exception_ptr Relay::fail_as_told(const FirstFailure& told) {
  const std::lock_guard lock(failure_mutex_);
  const std::exception_ptr before = broken();
  return before ? before : broken_by(told, nullptr);
}

// `own`: what is thrown here; null for what others have told.
std::exception_ptr Relay::broken_by(const FirstFailure& first, const std::exception_ptr& own) {
  {
    const std::lock_guard lock(broken_mutex_);
    broken_ = own ? own : first.as_told(rank_, world_size_);
  }
  if (is_leader()) between_->leaders->tell(first);
  break_off(first.encode(collective::kReasonBytes - 1));
  return broken();
}

std::exception_ptr Relay::fail(const std::exception& failure, const std::string& name, bool is_certain,
                               const std::vector<int64_t>& missing) {
  const FirstFailure own = {.missing = missing,
                            .text = name + " failed on rank " + std::to_string(rank_) + " of " +
                                    std::to_string(world_size_) + for_want_of(missing) + ": " + cause_of(failure)};
  if (!is_certain) {
    return failed(missing.empty() ? std::make_exception_ptr(CollectiveError(own.text, CollectiveCause::other_rank))
                                  : std::make_exception_ptr(collective::PeerLate(own.text, missing)),
                  name);
  }
  const std::lock_guard lock(failure_mutex_);
  const std::exception_ptr before = broken();
  return before ? before : broken_by(own, own.as_thrown());
}

std::exception_ptr Relay::fail_between(const std::exception& failure, const std::string& name) {
  const std::string text = "among the first ranks of the nodes, as ranks of their own: " + cause_of(failure);
  return fail(CollectiveError(text, CollectiveCause::other_rank), name);
}

// A connection has broken, of whose other end nothing is known, or nothing has come: another leader, or a rank of this
// node, may know more, or be what is missing. They do not ring for who carries out nothing, and only one thread waits
// for leaders. Who is late is known once all have answered whom they wait for. Who has left well is meant only where
// nobody else can be.
FirstFailure Relay::ask_others(const FirstFailure& own, const std::string& name, uint64_t late) const {
  // Others hear it from their leader, who may have to wait for last words before it asks.
  const Clock::time_point enough = Clock::now() + kPatience + (is_leader() ? milliseconds(0) : kLastWords);
  if (is_leader()) {
    between_->backend.abort();
    between_->leaders->ask(late);
  }
  while (true) {
    if (is_leader()) between_->leaders->look();
    if (const auto found = known_loss(name, /*counts_left=*/false)) return *found;
    const bool is_enough = Clock::now() >= enough;
    if (is_stopped_) return own;
    const bool has_all_answers = is_leader() && late > 0 && !between_->leaders->silent(name);
    if (is_enough || has_all_answers) {
      std::optional<FirstFailure> found;
      if (is_leader()) {
        const Leaders& leaders = *between_->leaders;
        found = late > 0 ? leaders.late(late, ways_.up->awaited(late), name) : leaders.silent(name);
      }
      if (!found && own.missing.empty()) found = known_loss(name, /*counts_left=*/true);
      return found.value_or(own);
    }
    std::this_thread::sleep_for(kLook);
  }
}

// What the other leaders have told or shown, and the ranks of this node.
std::optional<FirstFailure> Relay::known_loss(const std::string& name, bool counts_left) const {
  if (is_leader()) {
    const Leaders& leaders = *between_->leaders;
    if (const auto told = leaders.told()) return told;
    if (const auto gone = counts_left ? leaders.gone(name) : leaders.crashed(name)) return gone;
  }
  return known_loss_in_node(name, counts_left);
}

std::optional<FirstFailure> Relay::known_loss_in_node(const std::string& name, bool counts_left) const {
  try {
    ways_.up->check_gone(name, counts_left);
  } catch (const std::exception&) {
    const auto told = told_in(std::current_exception());
    return told ? *told : first_failure_in(std::current_exception());
  }
  return std::nullopt;
}

std::shared_ptr<void> Relay::when_broken(OnBroken on_broken) {
  auto watcher = std::make_shared<OnBroken>(std::move(on_broken));
  bool is_whole = false;
  {
    const std::lock_guard lock(broken_mutex_);
    is_whole = !broken_ && !is_stopped_;
    if (is_whole) {
      std::erase_if(watchers_, [](const auto& other) { return other.expired(); });
      watchers_.emplace_back(watcher);
    }
  }
  if (is_whole) {
    hear_node();  // who told of a failure before did so when nobody watched
  } else {
    call_apart([watcher, failure = broken()] { (*watcher)(failure); });
  }
  return watcher;
}

void Relay::listen_to_node() {
  ways_.up->when_given_up([self = weak_from_this()] {
    try {
      call_apart([self] {
        if (const auto relay = self.lock()) relay->hear_node();
      });
    } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch): no thread can be had: messages hear in time
    }
  });
}

// A leader hears the others by itself, and waits for the last words of one that has ended.
void Relay::hear_node() {
  {
    const std::lock_guard lock(broken_mutex_);
    if (watchers_.empty()) return;  // who waits next looks for itself
  }
  if (const auto found = known_loss_in_node("a message", /*counts_left=*/false)) fail_as_told(*found);
}

void Relay::break_off(const std::string& reason) {
  ways_.up->abort(reason);
  ways_.down->abort(reason);
  ways_.ends->abort(reason);
  flat_.abort();
  tell_watchers();
  if (!is_leader()) return;
  between_->backend.abort();
  between_->leaders->wake();
}

void Relay::tell_watchers() {
  std::vector<std::weak_ptr<OnBroken>> watchers;
  {
    const std::lock_guard lock(broken_mutex_);
    watchers = std::exchange(watchers_, {});
  }
  if (watchers.empty()) return;
  call_apart([watchers = std::move(watchers), failure = broken()] {
    for (const auto& watcher : watchers) {
      if (const auto alive = watcher.lock()) (*alive)(failure);
    }
  });
}

void Relay::abort() {
  is_stopped_ = true;
  if (is_leader()) between_->leaders->leave(/*has_aborted=*/true);
  break_off("");
}

}  // namespace paceline::comm
