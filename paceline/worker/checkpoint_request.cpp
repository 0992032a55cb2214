#include "paceline/worker/checkpoint_request.h"

namespace paceline::worker {

void CheckpointRequest::begin() {
  const std::lock_guard lock(mutex_);
  calls_ = 0;
  is_open_ = false;
  wanted_at_.clear();
}

int64_t CheckpointRequest::ask(int64_t number) {
  const std::lock_guard lock(mutex_);
  number_ = number;
  is_open_ = calls_ >= 0;
  return calls_;
}

void CheckpointRequest::decide(int64_t number, int64_t call) {
  {
    const std::lock_guard lock(mutex_);
    if (number != number_) return;
    is_open_ = false;
    if (call > 0) wanted_at_.insert(call);
  }
  changed_.notify_all();
}

bool CheckpointRequest::next_call() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !is_open_ || is_stopped_; });
  return wanted_at_.erase(++calls_) > 0;
}

void CheckpointRequest::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  changed_.notify_all();
}

}  // namespace paceline::worker
