#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "paceline/comm/callback_threads_internal.h"
#include "paceline/core/posix/forks.h"
#include "paceline/core/posix/thread.h"

namespace paceline::comm {
namespace {

constexpr std::chrono::seconds kIdleTime{10};

class CallbackThreads {
 public:
  void call(std::function<void()> callback) {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(callback));
    if (queue_.size() <= idle_) return changed_.notify_one();
    start_thread([this] { work(); }).detach();
  }

 private:
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
};

}  // namespace

void call_apart(std::function<void()> callback) {
  static auto* const threads = new PerProcess<CallbackThreads>();  // detached threads outlast the statics
  (*threads)->call(std::move(callback));
}

}  // namespace paceline::comm
