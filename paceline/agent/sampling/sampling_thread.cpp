#include "paceline/agent/sampling/sampling_thread.h"

#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "paceline/core/json.h"

namespace paceline::agent {
namespace {

constexpr std::chrono::seconds kEndPatience{2};

// Absent numbers are most of what a node without GPUs, swap and limits has to say.
void drop_absent(Json& json) {
  for (auto member = json.begin(); member != json.end();) {
    member = member->is_null() ? json.erase(member) : std::next(member);
  }
}

}  // namespace

std::string sample_line(const NodeSample& sample) {
  Json json = sample;
  drop_absent(json);
  for (Json& gpu : json["gpus"]) drop_absent(gpu);
  for (Json& process : json["processes"]) drop_absent(process);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

struct SamplingThread::Desk {
  const std::chrono::milliseconds interval;
  const OpenGpus open_gpus;

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::function<void(NodeSampler&)>> wishes;  // in their order
  bool ending = false;
  Taken taken;

  void wish(std::function<void(NodeSampler&)> what) {
    const std::lock_guard lock(mutex);
    wishes.push_back(std::move(what));
  }

  void work() {
    const SystemClock clock;
    NodeSampler sampler(open_gpus(), clock);
    auto next = std::chrono::steady_clock::now();
    std::unique_lock lock(mutex);
    while (!changed.wait_until(lock, next, [this] { return ending; })) {
      const auto wanted = std::exchange(wishes, {});
      lock.unlock();
      for (const auto& wish : wanted) wish(sampler);
      std::string line = sample_line(sampler.sample());
      lock.lock();
      if (ending) return;
      taken(std::move(line));  // under the lock: whoever ends this waits for it
      // What was missed while the machine slept, or a disk hung, is not made up for.
      next = std::max(next + interval, std::chrono::steady_clock::now());
    }
  }
};

SamplingThread::SamplingThread(std::chrono::milliseconds interval, OpenGpus open_gpus, Taken taken)
    : desk_(new Desk{.interval = interval, .open_gpus = std::move(open_gpus), .taken = std::move(taken)}),
      thread_([desk = desk_] { desk->work(); }) {}

SamplingThread::~SamplingThread() {
  {
    const std::lock_guard lock(desk_->mutex);
    desk_->ending = true;
  }
  desk_->changed.notify_all();
  thread_.finish(kEndPatience);
}

void SamplingThread::watch(SampledProcess process) {
  desk_->wish([process = std::move(process)](NodeSampler& sampler) { sampler.watch(process); });
}

void SamplingThread::watch_progress(int64_t worker, std::shared_ptr<const ProgressReader> progress) {
  desk_->wish([worker, progress = std::move(progress)](NodeSampler& sampler) mutable {
    sampler.watch_progress(worker, std::move(progress));
  });
}

void SamplingThread::forget(int64_t worker) {
  desk_->wish([worker](NodeSampler& sampler) { sampler.forget(worker); });
}

}  // namespace paceline::agent
