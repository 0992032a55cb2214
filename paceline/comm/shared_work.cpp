#include <atomic>
#include <condition_variable>
#include <mutex>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>

#include "paceline/comm/callback_threads_internal.h"
#include "paceline/comm/shared_work_internal.h"
#include "paceline/core/error.h"

namespace paceline::comm {
namespace {

// What `requests`, which c10d has as one work, are together.
CollectiveCall call_of_requests(Collective collective, const std::vector<collective::Request>& requests,
                                int world_size) {
  using collective::Kind;
  CollectiveCall call{.collective = collective};
  if (collective == Collective::barrier || requests.empty()) return call;
  call.type = requests.front().what.element;
  for (const collective::Request& request : requests) {
    const bool has_parts = request.kind == Kind::all_gather || request.kind == Kind::gather ||
                           request.kind == Kind::scatter || request.kind == Kind::reduce_scatter;
    const uint64_t bytes = request.elements * size_of(request.what.element);
    call.bytes += static_cast<int64_t>(has_parts ? bytes * static_cast<uint64_t>(world_size) : bytes);
    for (const uint64_t sent : request.sends) call.bytes += static_cast<int64_t>(sent);
  }
  return call;
}

void complete(c10::ivalue::Future& future, const std::vector<at::Tensor>& results, const std::exception_ptr& failure) {
  if (failure) {
    future.setErrorIfNeeded(failure);
  } else {
    future.markCompleted(c10::IValue(results));
  }
}

// The work goes on.
[[noreturn]] void throw_not_over(const WorkOf& of, std::chrono::milliseconds timeout) {
  throw CollectiveError(of.operation + " on rank " + std::to_string(of.rank) + " is not over after the " +
                            std::to_string(timeout.count()) + " ms that wait() was given; it goes on",
                        CollectiveCause::other_rank);
}

c10::intrusive_ptr<c10::ivalue::Future> make_future() {
  auto future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
  future->addCallback([](c10::ivalue::Future&) { stay_after_stop(); }, /*uses_future=*/false);
  return future;
}

void wait_to_end(c10d::Work& work) noexcept {
  try {
    work.wait(kNoTimeout);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the future has it
  }
}

// Several operations of the shared group that c10d has as one.
class SharedWork final : public c10d::Work {
 public:
  SharedWork(WorkOf of, std::shared_ptr<collective::SharedGroup> group)
      : Work(of.rank, of.type), state_(std::make_shared<State>(std::move(of))), group_(std::move(group)) {}

  // `after`: copies to where the user wants the results, once all parts have ended well.
  void begin(std::vector<collective::Request> requests, const std::shared_ptr<void>& keeps,
             const std::function<void()>& after, const std::shared_ptr<GroupProgress>& progress) {
    group_->refuse_forks(state_->of.operation.c_str());  // which share the progress
    state_->left = requests.size();
    state_->progress = progress;
    uint64_t number = state_->of.number;
    if (progress != nullptr) {
      state_->handle = progress->call_collective(call_of_requests(state_->of.collective, requests, group_->size()));
      number = static_cast<uint64_t>(state_->handle.number);
    }
    for (collective::Request& request : requests) {
      request.number = number;
      request.keeps = keeps;
      request.on_wait = [state = state_] { state->note_wait(); };
      request.on_end = [state = state_, after](const std::exception_ptr& failure) {
        return state->end(failure, after);
      };
    }
    for (collective::Request& request : requests) operations_.push_back(group_->start(std::move(request)));
  }

  bool isCompleted() override {
    if (state_->is_over) return true;
    push();  // who asks does not wait
    return false;
  }
  bool isSuccess() const override { return state_->is_over && state_->failure == nullptr; }
  std::exception_ptr exception() const override { return state_->is_over ? state_->failure : nullptr; }
  std::vector<at::Tensor> result() override { return state_->of.results; }

  bool wait(std::chrono::milliseconds timeout) override {
    state_->note_wait();
    state_->of.failures->run(state_->of.operation, [&] {
      if (timeout != kNoTimeout) return wait_until(std::chrono::steady_clock::now() + timeout, timeout);
      for (const auto& operation : operations_) group_->wait(operation);
    });
    if (state_->failure) std::rethrow_exception(state_->failure);
    return true;
  }
  void synchronize() override {}
  void abort() override { group_->abort(); }

  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    if (!has_future()) wait_here_after_stop([this] { wait_to_end(*this); });
    c10::intrusive_ptr<c10::ivalue::Future> future;
    bool is_over = false;
    {
      const std::lock_guard lock(state_->mutex);
      if (!state_->future) {
        state_->future = make_future();
      } else {
        return state_->future;
      }
      future = state_->future;
      is_over = state_->is_over;
    }
    if (is_over) {
      complete(*future, state_->of.results, state_->failure);
    } else {
      push();  // nobody may call wait()
    }
    return future;
  }

 private:
  // Outlives the work, which nobody need keep.
  struct State {
    explicit State(WorkOf work) : of(std::move(work)) {}

    const WorkOf of;
    std::mutex mutex;
    size_t left = 0;             // of the parts
    std::exception_ptr failure;  // as it is thrown; with the mutex until all parts are over
    std::atomic<bool> is_over = false;
    c10::intrusive_ptr<c10::ivalue::Future> future;  // null while nobody has asked for it
    std::shared_ptr<GroupProgress> progress;         // null: not counted
    CollectiveHandle handle;                         // before any part has begun

    // What nobody wants anything of yet is only called: this rank does not wait in it.
    void note_wait() {
      if (progress != nullptr) progress->wait_for_collective(handle);
    }

    // Returns what runs the callbacks of the future, if there is one. The parts of a group that is broken may be ended
    // by several threads.
    std::function<void()> end(const std::exception_ptr& why, const std::function<void()>& after) {
      {
        const std::lock_guard lock(mutex);
        if (why && !failure) failure = of.failures->as_thrown(of.operation, why);
        if (--left > 0) return {};
      }
      if (!failure && after) failure = of.failures->failure_of(after, of.operation);
      if (progress != nullptr) progress->end_collective(handle, failure != nullptr);
      c10::intrusive_ptr<c10::ivalue::Future> asked;
      {
        const std::lock_guard lock(mutex);
        is_over = true;
        asked = future;
      }
      if (!asked) return {};
      return [asked, results = of.results, why = failure]() mutable {
        call_user_here([asked = std::move(asked), results = std::move(results), why = std::move(why)] {
          complete(*asked, results, why);
        });
      };
    }
  };

  void wait_until(std::chrono::steady_clock::time_point deadline, std::chrono::milliseconds timeout) {
    for (const auto& operation : operations_) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      if (!group_->wait_for(operation, std::max(left, std::chrono::milliseconds(0))))
        throw_not_over(state_->of, timeout);
    }
  }

  bool has_future() const {
    const std::lock_guard lock(state_->mutex);
    return state_->future != nullptr;
  }

  void push() {
    state_->note_wait();
    for (const auto& operation : operations_) group_->push(operation);
  }

  const std::shared_ptr<State> state_;
  const std::shared_ptr<collective::SharedGroup> group_;
  std::vector<std::shared_ptr<collective::Operation>> operations_;
};

// What another thread carries out, and ends.
class WaitingWork final : public c10d::Work {
 public:
  // Outlives the work, which nobody need keep.
  class State {
   public:
    explicit State(WorkOf of) : of_(std::move(of)) {}
    /// `rank`: the other one.
    void end(const std::exception_ptr& failure, int rank) {
      c10::intrusive_ptr<c10::ivalue::Future> asked;
      {
        const std::lock_guard lock(mutex_);
        if (failure) failure_ = of_.failures->as_thrown(of_.operation, failure);
        rank_ = rank;
        is_over_ = true;
        asked = future_;
        changed_.notify_all();
      }
      if (asked) call_user_apart([asked, results = of_.results, why = failure_] { complete(*asked, results, why); });
    }

   private:
    friend class WaitingWork;

    const WorkOf of_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::exception_ptr failure_;
    int rank_ = -1;
    bool is_over_ = false;
    c10::intrusive_ptr<c10::ivalue::Future> future_;  // null while nobody has asked for it
  };

  explicit WaitingWork(WorkOf of) : Work(of.rank, of.type), state_(std::make_shared<State>(std::move(of))) {}

  const std::shared_ptr<State>& state() const { return state_; }

  bool isCompleted() override {
    const std::lock_guard lock(state_->mutex_);
    return state_->is_over_;
  }
  bool isSuccess() const override {
    const std::lock_guard lock(state_->mutex_);
    return state_->is_over_ && !state_->failure_;
  }
  std::exception_ptr exception() const override {
    const std::lock_guard lock(state_->mutex_);
    return state_->failure_;
  }
  int sourceRank() const override {
    const std::lock_guard lock(state_->mutex_);
    return state_->rank_;
  }
  std::vector<at::Tensor> result() override { return state_->of_.results; }
  void synchronize() override {}

  bool wait(std::chrono::milliseconds timeout) override {
    std::exception_ptr failure;
    {
      std::unique_lock lock(state_->mutex_);
      const auto is_over = [this] { return state_->is_over_; };
      if (timeout == kNoTimeout) {
        state_->changed_.wait(lock, is_over);
      } else if (!state_->changed_.wait_for(lock, timeout, is_over)) {
        lock.unlock();
        state_->of_.failures->run(state_->of_.operation, [&] { throw_not_over(state_->of_, timeout); });
      }
      failure = state_->failure_;
    }
    if (failure) std::rethrow_exception(failure);
    return true;
  }

  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    if (!has_future()) wait_here_after_stop([this] { wait_to_end(*this); });
    const std::lock_guard lock(state_->mutex_);
    if (!state_->future_) {
      state_->future_ = make_future();
      if (state_->is_over_) complete(*state_->future_, state_->of_.results, state_->failure_);
    }
    return state_->future_;
  }

 private:
  bool has_future() const {
    const std::lock_guard lock(state_->mutex_);
    return state_->future_ != nullptr;
  }

  const std::shared_ptr<State> state_;
};

}  // namespace

c10::intrusive_ptr<c10d::Work> start_work(WorkOf of, std::shared_ptr<collective::SharedGroup> group,
                                          std::vector<collective::Request> requests, const std::shared_ptr<void>& keeps,
                                          const std::function<void()>& after,
                                          const std::shared_ptr<GroupProgress>& progress) {
  auto work = c10::make_intrusive<SharedWork>(std::move(of), std::move(group));
  work->begin(std::move(requests), keeps, after, progress);
  return work;
}

ToldWork make_told_work(WorkOf of) {
  auto work = c10::make_intrusive<WaitingWork>(std::move(of));
  return {work, [state = work->state()](const std::exception_ptr& failure, int rank) { state->end(failure, rank); }};
}

}  // namespace paceline::comm
