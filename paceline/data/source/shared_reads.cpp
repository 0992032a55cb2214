#include "paceline/data/source/shared_reads.h"

#include <arrow/record_batch.h>
#include <arrow/util/byte_size.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

namespace paceline::data {
namespace {

constexpr int64_t kBytesKept = int64_t{64} << 20;

class SharedReads : public Source {
 public:
  explicit SharedReads(std::shared_ptr<const Source> source) : source_(std::move(source)) {}

  arrow::Result<std::shared_ptr<arrow::Schema>> schema() const override { return source_->schema(); }
  const std::vector<ChunkSize>& chunks() const override { return source_->chunks(); }
  bool counts_rows() const override { return source_->counts_rows(); }
  uint64_t fingerprint() const override { return source_->fingerprint(); }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> read(int64_t chunk, uint64_t key) const override {
    std::unique_lock lock(mutex_);
    const std::pair which(chunk, key);
    while (true) {
      const auto found = reads_.find(which);
      if (found == reads_.end()) break;
      if (auto batch = found->second.batch.lock()) return batch;
      if (!found->second.is_under_way) break;
      done_.wait(lock);
    }
    reads_[which].is_under_way = true;
    lock.unlock();
    auto batch = source_->read(chunk, key);
    lock.lock();
    reads_.erase(which);  // after an error the next one tries for himself
    if (batch.ok()) {
      std::erase_if(reads_, [](const auto& read) { return !read.second.is_under_way && read.second.batch.expired(); });
      reads_[which].batch = *batch;
      keep(*batch);
    }
    done_.notify_all();
    return batch;
  }

 private:
  struct Read {
    std::weak_ptr<arrow::RecordBatch> batch;
    bool is_under_way = false;
  };
  struct Kept {
    std::shared_ptr<arrow::RecordBatch> batch;
    int64_t bytes = 0;
  };

  void keep(const std::shared_ptr<arrow::RecordBatch>& batch) const {
    kept_.push_back({batch, static_cast<int64_t>(arrow::util::ReferencedBufferSize(*batch).ValueOr(0))});
    kept_bytes_ += kept_.back().bytes;
    while (kept_bytes_ > kBytesKept) {
      kept_bytes_ -= kept_.front().bytes;
      kept_.pop_front();
    }
  }

  const std::shared_ptr<const Source> source_;
  mutable std::mutex mutex_;
  mutable std::condition_variable done_;
  mutable std::map<std::pair<int64_t, uint64_t>, Read> reads_;
  mutable std::deque<Kept> kept_;  // the oldest first
  mutable int64_t kept_bytes_ = 0;
};

}  // namespace

std::shared_ptr<const Source> shared_reads(std::shared_ptr<const Source> source) {
  return std::make_shared<SharedReads>(std::move(source));
}

}  // namespace paceline::data
