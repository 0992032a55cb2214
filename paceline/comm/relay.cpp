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

std::exception_ptr stopped() {
  return std::make_exception_ptr(CollectiveError("the group was aborted", CollectiveCause::stopped));
}

std::exception_ptr between_nodes(const std::exception& failure) {
  return std::make_exception_ptr(CollectiveError(
      "among the first ranks of the nodes, as ranks of their own: " + cause_of(failure), CollectiveCause::other_rank));
}

}  // namespace

struct Relay::Call {
  Clock::time_point deadline;
  std::chrono::milliseconds timeout{};
  OnEnd on_end;
  std::mutex mutex;
  size_t left = 0;
  std::exception_ptr failure;

  void end_part(const std::exception_ptr& why) {
    {
      const std::lock_guard lock(mutex);
      if (why && !failure) failure = why;
      if (--left > 0) return;
    }
    on_end(failure);
  }
};

struct Relay::Pending {
  RelayStep step;
  std::shared_ptr<Call> call;
  bool is_ready = false;  // the way up has ended
  c10::intrusive_ptr<c10d::Work> work;
};

Relay::Relay(std::shared_ptr<SharedGroup> up, std::shared_ptr<SharedGroup> down,
             std::optional<ConnectedBackend> leaders, std::unique_ptr<FirstFailure> first)
    : leaders_(std::move(leaders)), first_(std::move(first)), up_(std::move(up)), down_(std::move(down)) {
  if (is_leader()) worker_ = start_thread([this] { work(); });
}

Relay::~Relay() {
  bool is_idle = false;
  {
    const std::lock_guard lock(mutex_);
    is_idle = queue_.empty();
    is_ending_ = true;
    changed_.notify_all();
  }
  is_stopped_ = true;
  if (!is_idle) break_off();
  if (worker_.joinable()) worker_.join();
}

void Relay::set_timeout(std::chrono::milliseconds timeout) {
  if (is_leader()) leaders_->handle->setTimeout(timeout);
}

// Whether this rank has something to do for a step after the way up.
bool Relay::goes_on(const RelayStep& step) const {
  return step.down.has_value() || (is_leader() && step.between);
}

void Relay::start(std::vector<RelayStep> steps, std::chrono::milliseconds timeout, OnEnd on_end) {
  if (!home_.is_here()) throw UsageError("a collective was called in a fork of its rank: it is its own process's");
  const auto call = std::make_shared<Call>();
  call->deadline = Clock::now() + timeout;
  call->timeout = timeout;
  call->on_end = std::move(on_end);
  call->left = 1;  // until all have been started
  for (const RelayStep& step : steps) call->left += (step.up ? 1 : 0) + (goes_on(step) ? 1 : 0);
  for (RelayStep& step : steps) {
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
      changed_.notify_all();
    }
    if (step.up) start_up(step, call, pending);
    if (!is_leader() && step.down) start_down(step, call);
  }
  call->end_part(nullptr);
}

void Relay::start_up(const RelayStep& step, const std::shared_ptr<Call>& call,
                     const std::shared_ptr<Pending>& pending) {
  Request request = *step.up;
  request.timeout = call->timeout;
  request.on_end = [this, call, pending](const std::exception_ptr& failure) -> std::function<void()> {
    const std::exception_ptr thrown = failure ? failed(failure) : nullptr;
    if (pending) {
      const std::lock_guard lock(mutex_);
      pending->is_ready = true;
      changed_.notify_all();
    }
    call->end_part(thrown);
    return {};
  };
  up_->push(up_->start(std::move(request)));
}

void Relay::start_down(const RelayStep& step, const std::shared_ptr<Call>& call) {
  Request request = *step.down;
  request.timeout = call->timeout + kGrace;
  request.on_end = [this, call](const std::exception_ptr& failure) -> std::function<void()> {
    call->end_part(failure ? failed(failure) : nullptr);
    return {};
  };
  down_->push(down_->start(std::move(request)));
}

// The leader's thread.
void Relay::work() {
  const at::NoGradGuard no_grad;
  std::deque<std::shared_ptr<Pending>> flying;
  std::unique_lock lock(mutex_);
  while (true) {
    if (!queue_.empty() && flying.size() < kFlights && (queue_.front()->is_ready || is_ending_)) {
      const auto next = queue_.front();
      queue_.pop_front();
      lock.unlock();
      if (begin_between(*next)) flying.push_back(next);
      lock.lock();
    } else if (!flying.empty()) {
      const auto first = std::move(flying.front());
      flying.pop_front();
      lock.unlock();
      end_between(*first);
      lock.lock();
    } else if (is_ending_) {
      return;
    } else {
      changed_.wait(lock);
    }
  }
}

bool Relay::begin_between(Pending& pending) {
  if (const std::exception_ptr why = broken()) {
    pending.call->end_part(why);
    return false;
  }
  try {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(pending.call->deadline - Clock::now());
    if (pending.step.between) {
      pending.work = pending.step.between(*leaders_->handle, std::max(left, std::chrono::milliseconds(1)));
    }
    return true;
  } catch (const std::exception& failure) {
    pending.call->end_part(failed(between_nodes(failure)));
    return false;
  }
}

void Relay::end_between(Pending& pending) {
  try {
    if (pending.work) pending.work->wait();
    if (pending.step.then) pending.step.then();
  } catch (const std::exception& failure) {
    pending.call->end_part(failed(between_nodes(failure)));
    return;
  }
  if (pending.step.down) {
    start_down(pending.step, pending.call);
  } else {
    pending.call->end_part(nullptr);
  }
}

std::exception_ptr Relay::broken() const {
  if (is_stopped_) return stopped();
  const std::lock_guard lock(failure_mutex_);
  return broken_;
}

// What is thrown for `failure`. The first one ends everything, here and elsewhere.
std::exception_ptr Relay::failed(const std::exception_ptr& failure) {
  {
    const std::lock_guard lock(failure_mutex_);
    if (is_stopped_) return stopped();
    if (broken_) return broken_;
    broken_ = first_->agree(failure);
  }
  break_off();
  return broken();
}

void Relay::break_off() const {
  up_->abort();
  down_->abort();
  if (is_leader()) leaders_->abort();
}

void Relay::abort() {
  is_stopped_ = true;
  break_off();
}

}  // namespace paceline::comm
