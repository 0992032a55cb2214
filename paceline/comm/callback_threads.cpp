#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>

#include "paceline/comm/callback_threads_internal.h"
#include "paceline/comm/torch_distributed.h"
#include "paceline/core/posix/forks.h"
#include "paceline/core/posix/thread.h"

namespace paceline::comm {
namespace {

constexpr std::chrono::seconds kIdleTime{10};

// Whether this thread completes a future whose callbacks nobody may call any more.
thread_local bool is_after_stop = false;

class CallbackThreads {
 public:
  // Where the system has no room for a thread, the caller's waits for the callback.
  void call(std::function<void()> callback) {
    if (!hand_over(callback)) callback();
  }

  void call_user(std::function<void()> callback) {
    if (!begin_user()) return call_after_stop(std::move(callback));
    call([this, callback = std::move(callback)]() mutable { run_user(std::move(callback)); });
  }

  void call_user_here(std::function<void()> callback) {
    if (!begin_user()) return call_after_stop(std::move(callback));
    run_user(std::move(callback));
  }

  // One that runs may wait for another's end: they begin as long as there are any.
  bool stop_user(std::chrono::milliseconds most, WithoutLock without_lock) {
    std::unique_lock lock(mutex_);
    const bool are_over = idle_of_user_.wait_for(lock, most, [this] { return user_callbacks_ == 0; });
    without_lock_ = std::move(without_lock);
    is_stopped_ = true;
    return are_over;
  }

  bool wait_here(const std::function<void()>& wait) {
    WithoutLock without_lock;
    {
      const std::lock_guard lock(mutex_);
      if (!is_stopped_) return false;
      without_lock = without_lock_;
    }
    without_lock(wait);
    return true;
  }

 private:
  // Whether another thread takes it.
  bool hand_over(std::function<void()>& callback) {
    const std::lock_guard lock(mutex_);
    if (queue_.size() >= idle_ && !begin_thread()) return false;
    queue_.push_back(std::move(callback));
    changed_.notify_one();
    return true;
  }

  bool begin_thread() {
    try {
      start_thread([this] { work(); }).detach();
      return true;
    } catch (const std::system_error&) {
      return false;
    }
  }

  // False where none may begin any more.
  bool begin_user() {
    const std::lock_guard lock(mutex_);
    if (!is_stopped_) ++user_callbacks_;
    return !is_stopped_;
  }

  void call_after_stop(std::function<void()> callback) {
    std::function<void()> called = [callback = std::move(callback)] {
      is_after_stop = true;
      callback();
      is_after_stop = false;
    };
    hand_over(called);
  }

  void run_user(std::function<void()> callback) {
    struct Running {
      ~Running() {
        const std::lock_guard lock(all.mutex_);
        if (--all.user_callbacks_ == 0) all.idle_of_user_.notify_all();
      }
      CallbackThreads& all;
    } const running{*this};
    const std::function<void()> called = std::move(callback);  // ends before the count
    called();
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      ++idle_;
      const bool is_called = changed_.wait_for(lock, kIdleTime, [this] { return !queue_.empty(); });
      --idle_;
      if (!is_called) return;
      std::function<void()> callback = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      callback();
      callback = nullptr;  // the end of what it holds may wait too
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  size_t idle_ = 0;
  size_t user_callbacks_ = 0;  // that wait or run
  std::condition_variable idle_of_user_;
  bool is_stopped_ = false;
  WithoutLock without_lock_;  // once it is stopped
};

CallbackThreads& threads() {
  static auto* const all = new PerProcess<CallbackThreads>();  // detached threads outlast the statics
  return **all;
}

}  // namespace

void call_apart(std::function<void()> callback) {
  threads().call(std::move(callback));
}

void call_user_apart(std::function<void()> callback) {
  threads().call_user(std::move(callback));
}

void call_user_here(std::function<void()> callback) {
  threads().call_user_here(std::move(callback));
}

void stay_after_stop() {
  while (is_after_stop) ::pause();
}

bool wait_here_after_stop(const std::function<void()>& wait) {
  return threads().wait_here(wait);
}

bool stop_callbacks(std::chrono::milliseconds most, WithoutLock without_lock) {
  return threads().stop_user(most, std::move(without_lock));
}

}  // namespace paceline::comm
