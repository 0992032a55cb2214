#include "paceline/data/service/data_service.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "paceline/core/posix/thread.h"
#include "paceline/data/service/served_rank_internal.h"

namespace paceline::data {
namespace {

// Datasets that are opened once, by whoever asks first.
class OpenDatasets {
 public:
  explicit OpenDatasets(decltype(DataServiceOptions::open) open) : open_(std::move(open)) {}

  arrow::Result<std::shared_ptr<DatasetReader>> operator()(const std::string& name) {
    Entry* entry = nullptr;
    {
      const std::lock_guard lock(mutex_);
      entry = &entries_[name];
    }
    const std::lock_guard lock(entry->mutex);
    if (entry->reader == nullptr) {
      ARROW_ASSIGN_OR_RAISE(entry->reader, open_(name));
    }
    return entry->reader;
  }

 private:
  struct Entry {
    std::mutex mutex;
    std::shared_ptr<DatasetReader> reader;
  };

  const decltype(DataServiceOptions::open) open_;
  std::mutex mutex_;
  std::map<std::string, Entry> entries_;
};

class Service : public DataService {
 public:
  explicit Service(DataServiceOptions options) : options_(std::move(options)) {
    auto datasets = std::make_shared<OpenDatasets>(std::move(options_.open));
    options_.open = [datasets](const std::string& name) { return (*datasets)(name); };
    undertaker_ = start_thread([this] { let_go(); });
  }

  ~Service() override {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    undertaker_.join();
  }

  void serve(Descriptor rank) override {
    const std::lock_guard lock(mutex_);
    ranks_.push_back(std::make_unique<ServedRank>(std::move(rank), options_));
    ranks_.back()->start([this] {
      const std::lock_guard done(mutex_);
      changed_.notify_all();
    });
  }

 private:
  // Ranks that are gone: their own threads cannot end them.
  void let_go() {
    std::unique_lock lock(mutex_);
    const auto is_gone = [](const auto& rank) { return rank->is_done(); };
    while (!stopped_) {
      changed_.wait(lock, [&] { return stopped_ || std::ranges::any_of(ranks_, is_gone); });
      std::vector<std::unique_ptr<ServedRank>> gone;
      for (auto& rank : ranks_) {
        if (is_gone(rank)) gone.push_back(std::move(rank));
      }
      std::erase(ranks_, nullptr);
      lock.unlock();
      gone.clear();
      lock.lock();
    }
    auto ranks = std::move(ranks_);
    lock.unlock();
    ranks.clear();
  }

  DataServiceOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopped_ = false;
  std::vector<std::unique_ptr<ServedRank>> ranks_;
  std::thread undertaker_;
};

}  // namespace

std::unique_ptr<DataService> start_data_service(DataServiceOptions options) {
  return std::make_unique<Service>(std::move(options));
}

}  // namespace paceline::data
