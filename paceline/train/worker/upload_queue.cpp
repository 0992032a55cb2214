#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "paceline/core/error.h"
#include "paceline/train/worker/upload_queue_internal.h"

namespace paceline::train {
namespace {

bool is_ready(const Upload& upload) {
  return !upload.valid() || upload.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

// The stage of a report's upload. A failure says which report's it is; type and frames stay those of the cause.
std::string staged_of(const Upload& upload, int64_t report) {
  try {
    return upload.get();
  } catch (const std::exception& error) {
    std::throw_with_nested(
        StorageError("the checkpoint of report " + std::to_string(report) + " could not be uploaded: " + error.what()));
  }
}

}  // namespace

Upload ended_upload(std::string staged) {
  std::promise<std::string> promise;
  promise.set_value(std::move(staged));
  return promise.get_future().share();
}

// What the threads work with; it may outlive the queue.
struct UploadQueue::Desk {
  struct Job {
    std::function<std::string()> work;
    std::promise<std::string> outcome;
  };
  struct Waiting {
    int64_t report = 0;
    Upload upload;
  };

  void work();
  void perform(Job job);
  void advance(std::unique_lock<std::mutex>& lock);

  HandOver hand_over;
  HandOverFiles hand_over_files;
  Fail fail;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Job> jobs;         // not begun
  int64_t in_flight = 0;        // not ended
  int64_t busy_threads = 0;     // inside a job
  std::deque<Waiting> reports;  // whose files are not handed over
  int64_t submitted = 0;
  int64_t handed_over = 0;
  bool handing_over = false;
  bool stopped = false;
  bool closed = false;
  std::exception_ptr error;
};

void UploadQueue::Desk::work() {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [this] { return closed || !jobs.empty(); });
    if (closed) return;
    Job job = std::move(jobs.front());
    jobs.pop_front();
    ++busy_threads;
    lock.unlock();
    perform(std::move(job));
    lock.lock();
    --busy_threads;
    --in_flight;
    changed.notify_all();
    advance(lock);
  }
}

// What the work holds is free again before anybody learns that it has ended.
void UploadQueue::Desk::perform(Job job) {
  std::string staged;
  std::exception_ptr problem;
  try {
    staged = job.work();
  } catch (...) {
    problem = std::current_exception();
  }
  job.work = nullptr;
  if (problem) {
    job.outcome.set_exception(problem);
  } else {
    job.outcome.set_value(std::move(staged));
  }
}

// Hands over what is ready, in order; one thread at a time.
void UploadQueue::Desk::advance(std::unique_lock<std::mutex>& lock) {
  if (handing_over) return;
  handing_over = true;
  while (!closed && !error && !reports.empty() && is_ready(reports.front().upload)) {
    Waiting waiting = std::move(reports.front());
    reports.pop_front();
    lock.unlock();
    std::exception_ptr problem;
    try {
      hand_over_files({.index = waiting.report, .staged = staged_of(waiting.upload, waiting.report)});
    } catch (...) {
      problem = std::current_exception();
      fail(problem);
    }
    lock.lock();
    ++handed_over;
    error = problem;
  }
  handing_over = false;
  changed.notify_all();
}

UploadQueue::UploadQueue(HandOver hand_over, HandOverFiles hand_over_files, Fail fail)
    : desk_(std::make_shared<Desk>()) {
  desk_->hand_over = std::move(hand_over);
  desk_->hand_over_files = std::move(hand_over_files);
  desk_->fail = std::move(fail);
}

UploadQueue::~UploadQueue() {
  std::unique_lock lock(desk_->mutex);
  desk_->closed = true;
  desk_->jobs.clear();
  desk_->changed.notify_all();
  // hand_over and fail may go with the queue's owner.
  desk_->changed.wait(lock, [this] { return !desk_->handing_over; });
  const bool idle = desk_->busy_threads == 0;
  lock.unlock();
  if (!idle) return;  // the threads are left behind
  for (BackgroundThread& thread : threads_) thread.finish(std::chrono::minutes(1));
}

void UploadQueue::wait_for_room() {
  std::unique_lock lock(desk_->mutex);
  desk_->changed.wait(lock,
                      [this] { return desk_->in_flight < kMostInFlight || desk_->error != nullptr || desk_->stopped; });
}

Upload UploadQueue::start(std::function<std::string()> work) {
  const std::lock_guard lock(desk_->mutex);
  Desk::Job job{std::move(work), {}};
  Upload upload = job.outcome.get_future().share();
  desk_->jobs.push_back(std::move(job));
  ++desk_->in_flight;
  if (std::ssize(threads_) < std::min(desk_->in_flight, kMostInFlight)) {
    threads_.emplace_back([desk = desk_] { desk->work(); });
  }
  desk_->changed.notify_all();
  return upload;
}

void UploadQueue::submit(rpc::Report report, Upload upload, bool wait) {
  std::unique_lock lock(desk_->mutex);
  if (desk_->error) std::rethrow_exception(desk_->error);
  // A checkpoint's files wait for those before them: the controller publishes in the order of reports.
  const bool waits = upload.valid() && (!desk_->reports.empty() || desk_->handing_over || !is_ready(upload));
  lock.unlock();
  const int64_t index = report.index;
  report.uploading = waits;
  if (upload.valid() && !waits) report.staged = staged_of(upload, index);
  desk_->hand_over(std::move(report));
  if (!waits) return;
  lock.lock();
  desk_->reports.push_back({index, std::move(upload)});
  const int64_t number = ++desk_->submitted;
  desk_->advance(lock);
  if (!wait) return;
  desk_->changed.wait(lock, [&] { return desk_->handed_over >= number || desk_->error; });
  if (desk_->error) std::rethrow_exception(desk_->error);
}

void UploadQueue::drain() {
  std::unique_lock lock(desk_->mutex);
  desk_->changed.wait(lock, [this] { return (desk_->reports.empty() && !desk_->handing_over) || desk_->error; });
  if (desk_->error) std::rethrow_exception(desk_->error);
}

void UploadQueue::stop() {
  const std::lock_guard lock(desk_->mutex);
  desk_->stopped = true;
  desk_->changed.notify_all();
}

}  // namespace paceline::train
