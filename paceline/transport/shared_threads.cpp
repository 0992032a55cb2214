#include "paceline/transport/shared_threads.h"

#include <algorithm>

#include "paceline/core/posix/thread.h"

namespace paceline::transport {
namespace {

using std::chrono::milliseconds;

// Looks that are due within this time of each other are made together, at its end.
constexpr Duration kTogether = milliseconds(5);
// So long work waits for a writer that does not come back before another starts.
constexpr Duration kPatience = milliseconds(2);
constexpr auto kIdle = std::chrono::seconds(10);

Time together(Time when) {
  const Duration since_epoch = when.time_since_epoch() + kTogether - Duration(1);
  return Time(since_epoch - since_epoch % kTogether);
}

}  // namespace

SharedThreads::SharedThreads(std::shared_ptr<const Clock> clock) : clock_(std::move(clock)) {
  timer_ = start_thread([this] { keep_time(); });
}

SharedThreads::~SharedThreads() {
  stop();
}

void SharedThreads::watch(std::weak_ptr<Timed> timed, Time when) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return;
  when = together(when);
  const bool is_first = due_.empty() || when < due_.begin()->first;
  due_.emplace(when, std::move(timed));
  if (is_first) time_changed_.notify_one();
}

bool SharedThreads::submit(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return false;
  work_.push_back(std::move(task));
  if (writers_.empty()) {
    const auto self = writers_.emplace(writers_.end());
    *self = start_thread([this, self] { write(self); });
  } else if (idle_ > 0) {
    work_changed_.notify_one();
  }
  // The timer sees to it that the work does not wait for long.
  if (work_.size() > idle_ && !supervises_) time_changed_.notify_one();
  return true;
}

void SharedThreads::wake() {
  const std::lock_guard lock(mutex_);
  time_changed_.notify_one();
}

void SharedThreads::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    due_.clear();
    time_changed_.notify_one();
    work_changed_.notify_all();
  }
  if (timer_.joinable()) timer_.join();
  std::list<std::thread> threads;
  {
    // A writer that ends moves itself to ended_, so the lists are complete only once all are there.
    std::unique_lock lock(mutex_);
    work_changed_.wait(lock, [this] { return writers_.empty(); });
    threads.swap(ended_);
  }
  for (std::thread& thread : threads) thread.join();
}

void SharedThreads::keep_time() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    look_at_due(lock);
    relieve_writers();
    std::list<std::thread> ended;
    ended.swap(ended_);
    if (!ended.empty()) {
      lock.unlock();
      for (std::thread& thread : ended) thread.join();
      lock.lock();
      continue;
    }
    Duration wait = std::chrono::hours(1);
    if (!due_.empty()) wait = std::max<Duration>(due_.begin()->first - clock_->now(), milliseconds(1));
    supervises_ = work_.size() > idle_;
    if (supervises_) wait = std::min(wait, kPatience);
    if (!stopping_) time_changed_.wait_for(lock, std::min<Duration>(wait, std::chrono::hours(1)));
  }
}

void SharedThreads::look_at_due(std::unique_lock<std::mutex>& lock) {
  const Time now = clock_->now();
  if (due_.empty() || due_.begin()->first > now) return;
  std::multimap<Time, std::weak_ptr<Timed>> looks;
  while (!due_.empty() && due_.begin()->first <= now) looks.insert(due_.extract(due_.begin()));
  lock.unlock();
  std::vector<std::pair<Time, std::weak_ptr<Timed>>> again;
  for (auto& [when, timed] : looks) {
    const std::shared_ptr<Timed> object = timed.lock();
    if (!object) continue;
    if (const auto next = object->look(now)) again.emplace_back(*next, std::move(timed));
  }
  lock.lock();
  if (stopping_) return;
  for (auto& [when, timed] : again) due_.emplace(together(when), std::move(timed));
}

void SharedThreads::relieve_writers() {
  const auto now = std::chrono::steady_clock::now();
  if (work_.size() <= idle_ || taken_ != taken_before_ || !supervises_) {
    taken_before_ = taken_;
    progress_ = now;
    return;
  }
  if (now - progress_ < kPatience) return;
  progress_ = now;
  const auto self = writers_.emplace(writers_.end());
  *self = start_thread([this, self] { write(self); });
}

void SharedThreads::write(std::list<std::thread>::iterator self) {
  std::unique_lock lock(mutex_);
  while (true) {
    if (work_.empty()) {
      if (stopping_) break;
      ++idle_;
      const auto woken = work_changed_.wait_for(lock, kIdle);
      --idle_;
      if (woken == std::cv_status::timeout && work_.empty() && writers_.size() > 1) break;
      continue;
    }
    std::function<void()> task = std::move(work_.front());
    work_.pop_front();
    ++taken_;
    lock.unlock();
    task();
    task = {};  // what it holds may be the last reference to something
    lock.lock();
  }
  ended_.splice(ended_.end(), writers_, self);
  if (stopping_) work_changed_.notify_all();
}

}  // namespace paceline::transport
