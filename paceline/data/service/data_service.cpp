#include "paceline/data/service/data_service.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "paceline/core/posix/thread.h"
#include "paceline/data/executor/read_pool.h"
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
      ARROW_ASSIGN_OR_RAISE(auto reader, open_(name));
      const std::lock_guard table(mutex_);
      entry->reader = std::move(reader);
    }
    return entry->reader;
  }

  std::map<std::string, std::shared_ptr<DatasetReader>> open() const {
    const std::lock_guard lock(mutex_);
    std::map<std::string, std::shared_ptr<DatasetReader>> all;
    for (const auto& [name, entry] : entries_) {
      if (entry.reader != nullptr) all.emplace(name, entry.reader);
    }
    return all;
  }

 private:
  struct Entry {
    std::mutex mutex;
    std::shared_ptr<DatasetReader> reader;  // changes under both mutexes
  };

  const decltype(DataServiceOptions::open) open_;
  mutable std::mutex mutex_;
  std::map<std::string, Entry> entries_;
};

class Service : public DataService {
 public:
  explicit Service(DataServiceOptions options)
      : options_(std::move(options)),
        pool_(shared_pool(static_cast<int>(options_.threads), options_.read_ahead_bytes)),
        datasets_(std::move(options_.open)) {
    options_.open = [this](const std::string& name) { return datasets_(name); };
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
    ranks_.push_back(std::make_unique<ServedRank>(std::move(rank), options_, pool_->ledger(), given_));
    ranks_.back()->start([this] {
      const std::lock_guard done(mutex_);
      changed_.notify_all();
    });
  }

  std::vector<DatasetFigures> figures() override {
    std::vector<DatasetFigures> all;
    for (const auto& [name, reader] : datasets_.open()) {
      DatasetFigures figures = reader->statistics().ValueOr(DatasetFigures{});
      figures.name = name;
      figures.ranks = given_.of(name);
      all.push_back(std::move(figures));
    }
    return all;
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
  const std::shared_ptr<ReadPool> pool_;  // the readers' too
  OpenDatasets datasets_;
  Given given_;
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
