#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <utility>

#include "paceline/comm/failure_internal.h"
#include "paceline/comm/relay_internal.h"
#include "paceline/core/error.h"
#include "paceline/core/posix/thread.h"

namespace paceline::comm {

using collective::Request;
using collective::SharedGroup;
using Clock = std::chrono::steady_clock;

namespace {

// Between the nodes at a time: both directions of the network are used.
constexpr size_t kFlights = 2;
// Who waits for its leader gives it the time to say what it has waited for.
constexpr std::chrono::milliseconds kGrace{2000};
// Processes of one node hear of the end of another within milliseconds, and their leader tells the others.
constexpr std::chrono::milliseconds kPatience{1000};
constexpr std::chrono::milliseconds kLook{10};

std::exception_ptr stopped() {
  return std::make_exception_ptr(CollectiveError("the group was aborted", CollectiveCause::stopped));
}

std::exception_ptr between_nodes(const std::exception& failure) {
  return std::make_exception_ptr(CollectiveError(
      "among the first ranks of the nodes, as ranks of their own: " + cause_of(failure), CollectiveCause::other_rank));
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
  RelayCall call;
  Clock::time_point deadline;
  uint64_t place = 0;         // among the calls of the group, from 1 on
  bool is_agreed_on = false;  // of the leader's thread
  std::mutex mutex;
  size_t left = 0;
  std::exception_ptr failure;

  std::chrono::milliseconds time_left() const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    return std::max(left, std::chrono::milliseconds(1));
  }

  void end_part(const std::exception_ptr& why) {
    {
      const std::lock_guard lock(mutex);
      if (why && !failure) failure = why;
      if (--left > 0) return;
    }
    call.on_end(failure);
  }
};

struct Relay::Pending {
  RelayStep step;
  std::shared_ptr<Call> call;
  std::atomic<bool> is_ready = false;  // the way up has ended
  c10::intrusive_ptr<c10d::Work> work;
};

Relay::Relay(int64_t rank, int64_t world_size, std::shared_ptr<SharedGroup> up, std::shared_ptr<SharedGroup> down,
             std::optional<LeadersWay> between, ConnectedBackend flat)
    : rank_(rank),
      world_size_(world_size),
      between_(std::move(between)),
      flat_(std::move(flat)),
      up_(std::move(up)),
      down_(std::move(down)) {
  if (is_leader()) worker_ = start_thread([this] { work(); });
}

Relay::~Relay() {
  bool is_idle = false;
  {
    const std::lock_guard lock(mutex_);
    is_idle = unfinished_ == 0;
    is_ending_ = true;
  }
  is_stopped_ = true;
  if (!is_idle) break_off("");
  if (is_leader()) between_->leaders->wake();  // of an idle one too
  if (worker_.joinable()) worker_.join();
}

void Relay::set_timeout(std::chrono::milliseconds timeout) {
  flat().setTimeout(timeout);
  if (is_leader()) between_->backend.handle->setTimeout(timeout);
}

// Whether this rank has something to do for a step after the way up.
bool Relay::goes_on(const RelayStep& step) const {
  return step.down.has_value() || (is_leader() && step.between);
}

void Relay::start(RelayCall what) {
  if (!home_.is_here()) throw UsageError("a collective was called in a fork of its rank: it is its own process's");
  const auto call = std::make_shared<Call>();
  std::vector<RelayStep> steps = std::move(what.steps);
  call->call = std::move(what);
  call->deadline = Clock::now() + call->call.timeout;
  call->place = ++calls_;
  call->left = 1;  // until all have been started
  if (is_leader()) between_->leaders->announce(call->call.fingerprint);
  for (const RelayStep& step : steps) call->left += (step.up ? 1 : 0) + (goes_on(step) ? 1 : 0);
  for (RelayStep& step : steps) {
    for (std::optional<Request>* part : {&step.up, &step.down}) {
      if (!*part) continue;
      (*part)->whole = call->call.fingerprint;
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
      const std::lock_guard lock(mutex_);
      queue_.push_back(pending);
      ++unfinished_;
      between_->leaders->wake();
    }
    if (step.up) start_up(step, call, pending);
    if (!is_leader() && step.down) start_down(step, call);
  }
  call->end_part(nullptr);
}

void Relay::start_up(const RelayStep& step, const std::shared_ptr<Call>& call,
                     const std::shared_ptr<Pending>& pending) {
  Request request = *step.up;
  request.timeout = call->call.timeout;
  request.on_end = [this, call, pending](const std::exception_ptr& failure) -> std::function<void()> {
    const std::exception_ptr thrown = failure ? failed(failure, call->call.name) : nullptr;
    if (pending) {
      pending->is_ready = true;
      between_->leaders->wake();
    }
    call->end_part(thrown);
    return {};
  };
  up_->push(up_->start(std::move(request)));
}

void Relay::start_down(const RelayStep& step, const std::shared_ptr<Call>& call) {
  Request request = *step.down;
  request.timeout = call->time_left() + kGrace;
  request.on_end = [this, call](const std::exception_ptr& failure) -> std::function<void()> {
    call->end_part(failure ? failed(failure, call->call.name) : nullptr);
    return {};
  };
  down_->push(down_->start(std::move(request)));
}

// The leader's thread.
void Relay::work() {
  const at::NoGradGuard no_grad;
  std::deque<std::shared_ptr<Pending>> flying;
  while (true) {
    std::shared_ptr<Pending> next;
    bool is_ending = false;
    {
      const std::lock_guard lock(mutex_);
      if (!queue_.empty()) next = queue_.front();
      is_ending = is_ending_;
    }
    if (next && flying.size() < kFlights && (is_ending || may_begin(*next))) {
      {
        const std::lock_guard lock(mutex_);
        queue_.pop_front();
      }
      if (begin_between(*next)) flying.push_back(std::move(next));
    } else if (!flying.empty()) {
      end_between(*flying.front());
      flying.pop_front();
    } else if (is_ending) {
      return;
    } else {
      between_->leaders->wait(next && !next->call->is_agreed_on ? next->call->deadline : Clock::time_point::max());
      if (next) hear(*next);
    }
  }
}

// Whether the values for it are there, and all leaders have called the same; or nothing will come of it.
bool Relay::may_begin(const Pending& pending) {
  Call& call = *pending.call;
  if (broken()) return pending.is_ready;
  try {
    if (!call.is_agreed_on) {
      call.is_agreed_on = between_->leaders->agree(call.place, call.call.fingerprint, call.call.name);
      if (!call.is_agreed_on && Clock::now() >= call.deadline) between_->leaders->fail_late(call.place, call.call.name);
    }
  } catch (const std::exception&) {
    const auto told = between_->leaders->told();  // why the other is gone, or what it has found before
    failed(told ? told->as_told(rank_, world_size_) : std::current_exception(), call.call.name);
    return pending.is_ready;
  }
  return call.is_agreed_on && pending.is_ready;
}

// What others have told ends this call too, though its values may still be on the way up.
void Relay::hear(const Pending& pending) {
  const auto told = between_->leaders->told();
  if (told && !broken()) failed(told->as_told(rank_, world_size_), pending.call->call.name);
}

bool Relay::begin_between(Pending& pending) {
  std::exception_ptr failure = broken();
  if (!failure && pending.step.between) {
    try {
      pending.work = pending.step.between(*between_->backend.handle, pending.call->time_left());
    } catch (const std::exception& thrown) {
      failure = failed(between_nodes(thrown), pending.call->call.name);
    }
  }
  if (!failure) return true;
  {
    const std::lock_guard lock(mutex_);
    --unfinished_;
  }
  pending.call->end_part(failure);
  return false;
}

void Relay::end_between(Pending& pending) {
  std::exception_ptr failure;
  try {
    if (pending.work) pending.work->wait();
    if (pending.step.then) pending.step.then();
  } catch (const std::exception& thrown) {
    failure = failed(between_nodes(thrown), pending.call->call.name);
  }
  if (!failure && pending.step.down) {
    start_down(pending.step, pending.call);
  } else {
    pending.call->end_part(failure);
  }
  const std::lock_guard lock(mutex_);
  --unfinished_;
}

std::exception_ptr Relay::broken() const {
  if (is_stopped_) return stopped();
  const std::lock_guard lock(failure_mutex_);
  return broken_;
}

// What is thrown for `failure`. The first one ends everything, here and elsewhere; who still waits for a store, or for
// another leader, has been told before.
std::exception_ptr Relay::failed(const std::exception_ptr& failure, const std::string& name) {
  FirstFailure first;
  {
    const std::lock_guard lock(failure_mutex_);
    if (is_stopped_) return stopped();
    if (broken_) return broken_;
    const auto told = told_in(failure);
    first = told ? *told : first_failure_in(failure);
    broken_ = told ? first.as_told(rank_, world_size_) : failure;
    if (!first.is_certain) {
      first = ask_others(std::move(first), name);
      if (first.is_certain) broken_ = first.as_told(rank_, world_size_);
    }
  }
  if (is_leader()) between_->leaders->tell(first);
  break_off(first.encode(collective::kReasonBytes - 1));
  return broken();
}

std::exception_ptr Relay::fail(const std::exception& failure, const std::string& name) {
  return failed(std::make_exception_ptr(CollectiveError(cause_of(failure), CollectiveCause::other_rank)), name);
}

// A connection has broken, of whose other end nothing is known, or nothing has come: another leader, or a rank of this
// node, may know more, or be what is missing. They do not ring for who carries out nothing. Leaders that wait in Gloo
// could not answer: what they wait for ends first.
FirstFailure Relay::ask_others(FirstFailure own, const std::string& name) const {
  if (is_leader()) {
    between_->backend.abort();
    between_->leaders->ask();
  }
  const Clock::time_point enough = Clock::now() + kPatience;
  while (true) {
    if (is_leader()) {
      if (const auto told = between_->leaders->told()) return *told;
      if (const auto gone = between_->leaders->gone(name)) return *gone;
    }
    try {
      up_->check_gone(name);
    } catch (const std::exception&) {
      const auto told = told_in(std::current_exception());
      return told ? *told : first_failure_in(std::current_exception());
    }
    if (is_stopped_) return own;
    if (Clock::now() >= enough) return is_leader() ? between_->leaders->silent(name).value_or(own) : own;
    if (is_leader()) {
      between_->leaders->wait(Clock::now() + kLook);
    } else {
      std::this_thread::sleep_for(kLook);
    }
  }
}

void Relay::break_off(const std::string& reason) const {
  up_->abort(reason);
  down_->abort(reason);
  flat_.abort();
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
