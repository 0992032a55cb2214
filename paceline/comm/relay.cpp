#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <utility>

#include "paceline/comm/callback_threads_internal.h"
#include "paceline/comm/failure_internal.h"
#include "paceline/comm/relay_internal.h"
#include "paceline/core/error.h"
#include "paceline/core/posix/thread.h"

namespace paceline::comm {

using collective::Request;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

namespace {

// Between the nodes at a time: both directions of the network are used.
constexpr size_t kFlights = 2;
// Who waits for its leader gives it the time to say what it has waited for.
constexpr milliseconds kGrace{2000};
// Processes of one node hear of the end of another within milliseconds, and their leader tells the others.
constexpr milliseconds kPatience{1000};
constexpr milliseconds kLook{10};
// What a leader that has ended has sent before may be on its way.
constexpr milliseconds kLastWords{2000};

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

struct Relay::Call {
  explicit Call(std::atomic<size_t>& unfinished_calls) : unfinished(unfinished_calls) { ++unfinished; }

  RelayCall call;
  std::atomic<size_t>& unfinished;
  Clock::time_point deadline;
  uint64_t place = 0;                                 // among the calls of the group, from 1 on
  bool has_said_ready = false, is_agreed_on = false;  // of the leader's thread
  std::mutex mutex;
  size_t left = 0;
  std::exception_ptr failure;

  milliseconds time_left() const {
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    return std::max(left, milliseconds(1));
  }

  void end_part(const std::exception_ptr& why) {
    {
      const std::lock_guard lock(mutex);
      if (why && !failure) failure = why;
      if (--left > 0) return;
    }
    --unfinished;  // before the group may be let go
    call.on_end(failure);
  }
};

struct Relay::Pending {
  RelayStep step;
  std::shared_ptr<Call> call;
  std::atomic<bool> is_ready = false;  // the way up has ended
  std::shared_ptr<Gate> gate;          // of the end of the call, if it has one
  c10::intrusive_ptr<c10d::Work> work;
  std::shared_ptr<std::atomic<bool>> is_over = std::make_shared<std::atomic<bool>>(false);  // between the nodes
};

Relay::Relay(int64_t rank, int64_t world_size, Ways ways, std::optional<LeadersWay> between, ConnectedBackend flat)
    : rank_(rank),
      world_size_(world_size),
      between_(std::move(between)),
      flat_(std::move(flat)),
      ways_(std::move(ways)) {
  if (!is_leader()) return;
  between_->leaders->answer_with([group = std::weak_ptr(ways_.up)](uint64_t place) {
    const auto alive = group.lock();
    return alive ? alive->awaited(place) : std::vector<int64_t>();
  });
  worker_ = start_thread([this] { work(); });
}

Relay::~Relay() {
  const bool is_idle = unfinished_ == 0, is_whole = is_idle && !broken();
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;  // before the leader's thread takes what has not come yet
    is_ending_ = true;
  }
  if (!is_idle) break_off("");
  if (is_leader()) between_->leaders->wake();  // of an idle one too
  if (worker_.joinable()) worker_.join();
  // What they end still finds all else.
  ways_.up->end();
  ways_.down->end();
  ways_.ends->end();
  if (is_leader()) between_->leaders->leave(/*has_aborted=*/!is_idle);
  if (is_whole) return;
  call_apart([flat = std::move(flat_), between = std::move(between_)] {});  // for what Gloo has not ended
}

void Relay::set_timeout(milliseconds timeout) {
  flat()->setTimeout(timeout);
  if (is_leader()) between_->backend.handle->setTimeout(timeout);
}

// Whether this rank has something to do for a step after the way up.
bool Relay::goes_on(const RelayStep& step) const {
  return step.down.has_value() || (is_leader() && step.between);
}

void Relay::refuse_forks() const {
  if (!home_.is_here()) throw UsageError("a collective was called in a fork of its rank: it is its own process's");
}

void Relay::start(RelayCall what) {
  refuse_forks();
  const auto call = std::make_shared<Call>(unfinished_);
  std::vector<RelayStep> steps = std::move(what.steps);
  call->call = std::move(what);
  call->deadline = Clock::now() + call->call.timeout;
  call->place = ++calls_;
  // Every call goes up somewhere on every node: there its ranks compare.
  if (steps.empty())
    steps.push_back({.up = {}, .between = {}, .then = {}, .down = Request{.kind = collective::Kind::barrier}});
  if (std::ranges::none_of(steps, [](const RelayStep& step) { return step.up.has_value(); })) {
    steps.front().up = Request{.kind = collective::Kind::barrier};
  }
  call->left = 1;  // until all have been started
  if (is_leader()) between_->leaders->announce(call->call.fingerprint);
  for (const RelayStep& step : steps) call->left += (step.up ? 1 : 0) + (goes_on(step) ? 1 : 0);
  std::shared_ptr<Gate> gate;
  if (steps.back().alone) ++call->left;
  for (RelayStep& step : steps) {
    gate = step.alone ? std::make_shared<Gate>(false) : nullptr;
    for (std::optional<Request>* part : {&step.up, &step.down}) {
      if (!*part) continue;
      (*part)->whole = call->call.fingerprint;
      (*part)->place = call->place;
      (*part)->number = call->call.number;
    }
    std::shared_ptr<Pending> pending;
    if (is_leader() && goes_on(step)) {
      pending = std::make_shared<Pending>();
      pending->call = call;
      pending->is_ready = !step.up;
      pending->step.between = std::move(step.between);
      pending->step.then = std::move(step.then);
      pending->step.down = std::move(step.down);
      pending->step.alone = std::move(step.alone);
      pending->gate = gate;
      const std::lock_guard lock(mutex_);
      queue_.push_back(pending);
      between_->leaders->wake();
    }
    if (step.up) start_up(step, call, pending);
    if (!is_leader() && step.down) start_down(step, call, gate);
  }
  if (gate) start_end(call, gate);
  call->end_part(nullptr);
}

void Relay::start_up(const RelayStep& step, const std::shared_ptr<Call>& call,
                     const std::shared_ptr<Pending>& pending) {
  Request request = *step.up;
  request.timeout = call->call.timeout;
  request.on_end = [this, call, pending](const std::exception_ptr& failure) -> std::function<void()> {
    const std::exception_ptr thrown = failure ? failed(failure, call->call.name, call->place) : nullptr;
    if (pending) {
      pending->is_ready = true;
      between_->leaders->wake();
    }
    call->end_part(thrown);
    return {};
  };
  ways_.up->push(ways_.up->start(std::move(request)));
}

// `gate`: of the end, where this rank has something to do alone.
void Relay::start_down(const RelayStep& step, const std::shared_ptr<Call>& call, const std::shared_ptr<Gate>& gate) {
  Request request = *step.down;
  request.timeout = call->time_left() + kGrace;
  request.on_end = [this, call, alone = step.alone, gate](const std::exception_ptr& failure) -> std::function<void()> {
    if (!failure && gate) begin_alone(alone, call, gate);
    call->end_part(failure ? failed(failure, call->call.name) : nullptr);
    return {};
  };
  ways_.down->push(ways_.down->start(std::move(request)));
}

// Of a call that each rank carries out for itself, once the gate is open.
void Relay::start_end(const std::shared_ptr<Call>& call, const std::shared_ptr<Gate>& gate) {
  Request request{.kind = collective::Kind::barrier, .number = call->call.number, .timeout = call->call.timeout};
  request.gate = gate;
  request.whole = call->call.fingerprint;
  request.place = call->place;
  request.on_end = [this, call](const std::exception_ptr& failure) -> std::function<void()> {
    if (is_leader()) {
      const std::lock_guard lock(mutex_);
      if (alone_.erase(call->place) > 0 && !failure) between_->leaders->announce_done(call->place);
    }
    call->end_part(failure ? failed(failure, call->call.name) : nullptr);
    return {};
  };
  ways_.ends->push(ways_.ends->start(std::move(request)));
}

// Gloo may go on when the group has failed, and when it is gone: of what it is about to send when a connection breaks
// it tells nobody (tcp/pair.cc, signalException).
void Relay::begin_alone(const std::function<void(RelayStep::Done)>& alone, const std::shared_ptr<Call>& call,
                        const std::shared_ptr<Gate>& gate) {
  if (is_leader()) {
    const std::lock_guard lock(mutex_);
    alone_.emplace(call->place, call->call.name);
    between_->leaders->wake();  // of who has ended before
  }
  const auto done = [group = weak_from_this(), ends = std::weak_ptr(ways_.ends), call,
                     gate](const std::exception_ptr& failure) {
    if (auto alive = failure ? group.lock() : nullptr) {
      try {
        std::rethrow_exception(failure);
      } catch (const std::exception& cause) {
        alive->fail(cause, call->call.name, first_failure_in(failure).is_certain);
      }
      // The user may have let go of it: the last to do so waits for its threads, of which this may be one.
      call_apart([alive = std::move(alive)] {});
    }
    if (const auto alive = ends.lock()) alive->open(*gate);
  };
  try {
    alone(done);
  } catch (...) {
    done(std::current_exception());
  }
}

// The leader's thread. It waits for what others say, and for Gloo, at a time.
void Relay::work() {
  const at::NoGradGuard no_grad;
  std::deque<std::shared_ptr<Pending>> flying;
  Clock::time_point gone_since = Clock::time_point::max();
  while (true) {
    std::shared_ptr<Pending> next;
    bool is_ending = false;
    {
      const std::lock_guard lock(mutex_);
      if (!queue_.empty()) next = queue_.front();
      is_ending = is_ending_;
    }
    if (!flying.empty() && (*flying.front()->is_over || broken())) {
      end_between(*flying.front());
      flying.pop_front();
    } else if (next && flying.size() < kFlights && (is_ending || may_begin(*next))) {
      {
        const std::lock_guard lock(mutex_);
        queue_.pop_front();
      }
      if (begin_between(*next)) flying.push_back(std::move(next));
    } else if (is_ending && flying.empty()) {
      return;
    } else {
      Clock::time_point until = Clock::time_point::max();
      if (next && !next->call->is_agreed_on && !broken()) until = next->call->deadline;
      if (gone_since != Clock::time_point::max()) until = std::min(until, gone_since + kLastWords);
      between_->leaders->wait(until);
      hear(flying.empty() ? nullptr : flying.front()->call.get(), gone_since);
    }
  }
}

// Whether the values for it are there on all nodes, and all leaders have called the same; or nothing will come of it.
bool Relay::may_begin(const Pending& pending) {
  Call& call = *pending.call;
  if (broken()) return pending.is_ready;
  if (call.is_agreed_on) return pending.is_ready;
  Leaders& leaders = *between_->leaders;
  try {
    if (pending.is_ready && !std::exchange(call.has_said_ready, true)) leaders.announce_ready(call.place);
    call.is_agreed_on = leaders.agree(call.place, call.call.fingerprint, call.call.name) && call.has_said_ready;
    if (const auto told = leaders.told()) {  // with what agree() has heard
      fail_as_told(*told);
      return pending.is_ready;
    }
    if (!call.is_agreed_on && Clock::now() >= call.deadline) {
      throw CollectiveError(call.call.name + " failed on rank " + std::to_string(rank_) +
                                ": not all ranks have come in "
                                "time (TorchConfig.timeout_s)",
                            CollectiveCause::other_rank);
    }
  } catch (const std::exception&) {
    const auto told = leaders.told();  // why the other is gone, or what it has found before
    told ? fail_as_told(*told) : failed(std::current_exception(), call.call.name, call.place);
    return pending.is_ready;
  }
  return call.is_agreed_on && pending.is_ready;
}

// What others have told ends what is under way, though its values may still be on their way. Of one that has ended
// some may be still to come, but not for long: a fork of its process may keep its connections open. One that has left
// has done its part: its values come, however long they take.
void Relay::hear(const Call* flying, Clock::time_point& gone_since) {
  const Clock::time_point since = std::exchange(gone_since, Clock::time_point::max());
  if (broken()) return;
  if (const auto told = between_->leaders->told()) {
    fail_as_told(*told);
  } else if (const auto missed = missed_alone()) {
    fail_as_told(*missed);
  } else if (flying != nullptr) {
    const auto gone = between_->leaders->gone(flying->call.name, flying->place);
    if (!gone) return;
    gone_since = std::min(since, Clock::now());
    if (Clock::now() >= gone_since + kLastWords) fail_as_told(*gone);
  }
}

// For want of whom what ranks carry out for themselves cannot end: a node that is done with it says so.
std::optional<FirstFailure> Relay::missed_alone() {
  const std::lock_guard lock(mutex_);
  if (alone_.empty()) return std::nullopt;
  const auto& [place, name] = *alone_.begin();
  return between_->leaders->gone(name, place);
}

bool Relay::begin_between(Pending& pending) {
  std::exception_ptr failure = broken();
  if (!failure && pending.step.between) {
    try {
      pending.work = pending.step.between(*between_->backend.handle, pending.call->time_left());
      pending.work->getFuture()->addCallback(
          [is_over = pending.is_over, leaders = std::weak_ptr(between_->leaders)](c10::ivalue::Future&) {
            *is_over = true;
            if (const auto alive = leaders.lock()) alive->wake();
          });
    } catch (const std::exception& thrown) {
      failure = fail_between(thrown, pending.call->call.name);
    }
  } else {
    *pending.is_over = true;
  }
  if (!failure) return true;
  pending.call->end_part(failure);
  return false;
}

void Relay::end_between(Pending& pending) {
  // Gloo may go on until its timeout: what it is about to send when a connection breaks is not told (tcp/pair.cc).
  std::exception_ptr failure = *pending.is_over ? nullptr : broken();
  try {
    if (!failure && pending.work) pending.work->wait();
    if (!failure && pending.step.then) pending.step.then();
  } catch (const std::exception& thrown) {
    failure = fail_between(thrown, pending.call->call.name);
  }
  if (!failure && pending.step.down) {
    start_down(pending.step, pending.call, pending.gate);
  } else {
    pending.call->end_part(failure);
  }
}

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

// Who is late for a call may be so because others have not come to one before it.
std::pair<std::string, uint64_t> Relay::first_awaited(const std::string& name, uint64_t place) {
  const std::lock_guard lock(mutex_);
  if (place == 0 || queue_.empty() || queue_.front()->call->place >= place) return {name, place};
  return {queue_.front()->call->call.name, queue_.front()->call->place};
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
  {
    const std::lock_guard lock(broken_mutex_);
    if (!broken_ && !is_stopped_) {
      std::erase_if(watchers_, [](const auto& other) { return other.expired(); });
      watchers_.emplace_back(watcher);
      return watcher;
    }
  }
  call_apart([watcher, failure = broken()] { (*watcher)(failure); });
  return watcher;
}

void Relay::break_off(const std::string& reason) {
  ways_.up->abort(reason);
  ways_.down->abort(reason);
  ways_.ends->abort(reason);
  flat_.abort();
  std::vector<std::weak_ptr<OnBroken>> watchers;
  {
    const std::lock_guard lock(broken_mutex_);
    watchers = std::exchange(watchers_, {});
  }
  if (!watchers.empty()) {
    call_apart([watchers = std::move(watchers), failure = broken()] {
      for (const auto& watcher : watchers) {
        if (const auto alive = watcher.lock()) (*alive)(failure);
      }
    });
  }
  if (!is_leader()) return;
  between_->backend.abort();
  between_->leaders->wake();
}

void Relay::abort() {
  is_stopped_ = true;
  if (is_leader()) between_->leaders->leave(/*has_aborted=*/true);
  break_off("");
}

}  // namespace paceline::comm
