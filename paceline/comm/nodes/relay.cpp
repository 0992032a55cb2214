#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <utility>

#include "paceline/comm/callback_threads_internal.h"
#include "paceline/comm/failure_internal.h"
#include "paceline/comm/nodes/relay_internal.h"
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

}  // namespace

struct Relay::Call {
  explicit Call(std::shared_ptr<std::atomic<size_t>> unfinished_calls) : unfinished(std::move(unfinished_calls)) {
    ++*unfinished;
  }

  RelayCall call;
  const std::shared_ptr<std::atomic<size_t>> unfinished;
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
    --*unfinished;  // before the group may be let go
    call.on_end(failure);
    unfinished->notify_all();
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
  const bool is_idle = *unfinished_ == 0, is_whole = is_idle && !broken();
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;  // before the leader's thread takes what has not come yet
    is_ending_ = true;
  }
  is_idle ? tell_watchers() : break_off("");
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

void Relay::leave() {
  for (size_t left = *unfinished_; left > 0; left = *unfinished_) unfinished_->wait(left);
  for (const auto& way : {ways_.up, ways_.down, ways_.ends}) way->leave();
  if (is_leader()) between_->leaders->leave(/*has_aborted=*/false);
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
    const c10::InferenceMode as_allowed_to_write;
    alone(done);
  } catch (...) {
    done(std::current_exception());
  }
}

// The leader's thread. It waits for what others say, and for Gloo, at a time.
void Relay::work() {
  const c10::InferenceMode as_allowed_to_write;  // also tensors of a rank that was in it when it called
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
      throw CollectiveError(call.call.name + " failed on rank " + std::to_string(rank_) + " of " +
                                std::to_string(world_size_) + ": not all ranks have come in time " +
                                collective::kTimeLimits,
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
    fail_after_last_words(between_->leaders->gone(flying->call.name, flying->place), since, gone_since);
  } else if (*unfinished_ == 0) {  // ranks of this node may wait for this one, which need not come
    fail_after_last_words(between_->leaders->crashed("a collective"), since, gone_since);
  }
}

void Relay::fail_after_last_words(const std::optional<FirstFailure>& gone, Clock::time_point since,
                                  Clock::time_point& gone_since) {
  if (!gone) return;
  gone_since = std::min(since, Clock::now());
  if (Clock::now() >= gone_since + kLastWords) fail_as_told(*gone);
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

// Who is late for a call may be so because others have not come to one before it.
std::pair<std::string, uint64_t> Relay::first_awaited(const std::string& name, uint64_t place) {
  const std::lock_guard lock(mutex_);
  if (place == 0 || queue_.empty() || queue_.front()->call->place >= place) return {name, place};
  return {queue_.front()->call->call.name, queue_.front()->call->place};
}

}  // namespace paceline::comm
