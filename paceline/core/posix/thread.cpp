#include "paceline/core/posix/thread.h"

namespace paceline {

BackgroundThread::~BackgroundThread() {
  detach();
}

bool BackgroundThread::wait_until(Clock::time_point deadline) const {
  return !thread_.joinable() || ended_.wait_until(deadline) == std::future_status::ready;
}

bool BackgroundThread::finish_by(Clock::time_point deadline) {
  if (!wait_until(deadline)) {
    detach();
    return false;
  }
  if (thread_.joinable()) thread_.join();
  return true;
}

void BackgroundThread::detach() {
  if (thread_.joinable()) thread_.detach();
}

}  // namespace paceline
