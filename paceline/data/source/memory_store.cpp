#include <arrow/record_batch.h>
#include <arrow/util/byte_size.h>

#include <map>
#include <mutex>

#include "paceline/core/posix/forks.h"
#include "paceline/data/source/block_store_internal.h"

namespace paceline::data {
namespace {

class MemoryStore : public BlockStore {
 public:
  explicit MemoryStore(int64_t bytes) : bytes_(bytes) {}

  std::shared_ptr<arrow::RecordBatch> find(int64_t block) override {
    const std::lock_guard lock(kept_->mutex);
    const auto found = kept_->blocks.find(block);
    return found == kept_->blocks.end() ? nullptr : found->second;
  }

  void keep(int64_t block, const std::shared_ptr<arrow::RecordBatch>& rows) override {
    // All that it keeps alive, which for a slice is more than its rows.
    const int64_t bytes = arrow::util::TotalBufferSize(*rows);
    const std::lock_guard lock(kept_->mutex);
    if (bytes > bytes_ - kept_->bytes || !kept_->blocks.emplace(block, rows).second) return;
    kept_->bytes += bytes;
  }

 private:
  struct Kept {
    std::mutex mutex;
    int64_t bytes = 0;
    std::map<int64_t, std::shared_ptr<arrow::RecordBatch>> blocks;
  };

  const int64_t bytes_;
  const PerProcess<Kept> kept_;
};

}  // namespace

std::unique_ptr<BlockStore> memory_store(int64_t bytes) {
  return std::make_unique<MemoryStore>(bytes);
}

}  // namespace paceline::data
