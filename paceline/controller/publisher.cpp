#include "paceline/controller/publisher.h"

#include <csignal>

namespace paceline::controller {

Publisher::Publisher(checkpoint::Store store, Inbox& inbox) : store_(std::move(store)), inbox_(inbox) {
  // The user's signal handlers run on the user's threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { work(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Publisher::~Publisher() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    std::erase_if(jobs_, [](const auto& job) { return std::holds_alternative<PublishJob>(job); });
  }
  changed_.notify_one();
  thread_.join();
}

void Publisher::add(std::variant<PublishJob, RemoveJob> job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  changed_.notify_one();
}

void Publisher::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    auto job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    std::visit([this](auto& kind) { execute(kind); }, job);
    lock.lock();
  }
}

void Publisher::execute(PublishJob& job) {
  const int64_t report = job.about.report;
  inbox_.push(PublishDone{report, store_.publish(job.parts, std::move(job.about))});
}

void Publisher::execute(RemoveJob& job) {
  const arrow::Status removed = store_.remove(job.report);
  if (!removed.ok()) inbox_.push(RemoveFailed{job.report, removed});
}

}  // namespace paceline::controller
