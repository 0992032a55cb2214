#include <arrow/record_batch.h>
#include <arrow/util/byte_size.h>

#include <map>
#include <mutex>

#include "paceline/data/source/block_store_internal.h"

namespace paceline::data {
namespace {

class MemoryStore : public BlockStore {
 public:
  explicit MemoryStore(int64_t bytes) : left_(bytes) {}

  std::shared_ptr<arrow::RecordBatch> find(int64_t block) override {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(block);
    return found == blocks_.end() ? nullptr : found->second;
  }

  void keep(int64_t block, const std::shared_ptr<arrow::RecordBatch>& rows) override {
    // All that it keeps alive, which for a slice is more than its rows.
    const int64_t bytes = arrow::util::TotalBufferSize(*rows);
    const std::lock_guard lock(mutex_);
    if (bytes > left_ || !blocks_.emplace(block, rows).second) return;
    left_ -= bytes;
  }

 private:
  std::mutex mutex_;
  int64_t left_;
  std::map<int64_t, std::shared_ptr<arrow::RecordBatch>> blocks_;
};

}  // namespace

std::unique_ptr<BlockStore> memory_store(int64_t bytes) {
  return std::make_unique<MemoryStore>(bytes);
}

}  // namespace paceline::data
