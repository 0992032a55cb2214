#include "paceline/controller/publisher.h"

namespace paceline::controller {

// No checkpoint without its report.
arrow::Result<checkpoint::Published> publish(checkpoint::Store& store, PublishJob job) {
  if (job.report_is_durable) ARROW_RETURN_NOT_OK(job.report_is_durable());
  return store.publish(job.parts, std::move(job.about));
}

Publisher::Publisher(checkpoint::Store store, Inbox& inbox)
    : desk_(std::make_shared<Desk>(std::move(store), inbox)), thread_([desk = desk_] { desk->work(); }) {}

Publisher::~Publisher() {
  finish();
}

bool Publisher::finish(std::chrono::milliseconds patience) {
  {
    const std::lock_guard lock(desk_->mutex);
    desk_->ending = true;
    std::erase_if(desk_->jobs, [](const Job& job) { return std::holds_alternative<PublishJob>(job); });
  }
  desk_->changed.notify_all();
  if (thread_.finish(patience)) return true;
  const std::lock_guard lock(desk_->mutex);
  desk_->inbox = nullptr;
  desk_->jobs.clear();
  return false;
}

void Publisher::add(Job job) {
  {
    const std::lock_guard lock(desk_->mutex);
    desk_->jobs.push_back(std::move(job));
  }
  desk_->changed.notify_all();
}

void Publisher::Desk::work() {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [this] { return ending || !jobs.empty(); });
    if (jobs.empty()) return;
    Job job = std::move(jobs.front());
    jobs.pop_front();
    lock.unlock();
    std::visit([this](auto& kind) { execute(kind); }, job);
    lock.lock();
  }
}

void Publisher::Desk::execute(PublishJob& job) {
  const int64_t report = job.about.report;
  push(PublishDone{report, publish(store, std::move(job))});
}

void Publisher::Desk::execute(RemoveJob& job) {
  const arrow::Status removed = store.remove(checkpoint::folder_name(job.name, job.report));
  if (!removed.ok()) push(RemoveFailed{job.report, removed});
}

void Publisher::Desk::push(Incoming result) {
  const std::lock_guard lock(mutex);
  if (inbox != nullptr) inbox->push(std::move(result));
}

void Publisher::Desk::execute(DiscardJob& job) {
  // What cannot be deleted now is when the run ends.
  for (const WorkerId worker : job.workers) (void)store.discard_stages(job.attempt, worker);
}

}  // namespace paceline::controller
