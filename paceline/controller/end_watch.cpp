#include "paceline/controller/end_watch.h"

#include <utility>

#include "paceline/core/posix/thread.h"

namespace paceline::controller {

EndWatch::EndWatch(TakesLong takes_long, Clock::duration patience)
    : takes_long_(std::move(takes_long)), patience_(patience), thread_(start_thread([this] { watch(); })) {}

EndWatch::~EndWatch() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void EndWatch::enter(std::string step) {
  const std::lock_guard lock(mutex_);
  if (step == step_) return;
  step_ = std::move(step);
  since_ = Clock::now();
  is_said_ = false;
  changed_.notify_all();
}

void EndWatch::watch() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    if (step_.empty() || is_said_) {
      changed_.wait(lock);
    } else if (const auto due = since_ + patience_; Clock::now() < due) {
      changed_.wait_until(lock, due);
    } else {
      is_said_ = true;
      const std::string step = step_;
      lock.unlock();
      takes_long_(step);
      lock.lock();
    }
  }
}

}  // namespace paceline::controller
