#include <arrow/record_batch.h>
#include <arrow/util/byte_size.h>

#include <map>
#include <mutex>

#include "paceline/core/posix/forks.h"
#include "paceline/data/memory/decoding.h"
#include "paceline/data/source/block_store_internal.h"

namespace paceline::data {
namespace {

class MemoryStore : public BlockStore {
 public:
  explicit MemoryStore(std::optional<int64_t> bytes) : bytes_(bytes) {}

  std::shared_ptr<arrow::RecordBatch> find(int64_t block) override {
    const std::lock_guard lock(kept_->mutex);
    (void)room(*kept_);
    const auto found = kept_->blocks.find(block);
    return found == kept_->blocks.end() ? nullptr : found->second.rows;
  }

  void keep(int64_t block, const std::shared_ptr<arrow::RecordBatch>& rows) override {
    // All that it keeps alive, which for a slice is more than its rows.
    const int64_t bytes = arrow::util::TotalBufferSize(*rows);
    const std::lock_guard lock(kept_->mutex);
    if (bytes > room(*kept_) || !kept_->blocks.emplace(block, Block{rows, bytes}).second) return;
    kept_->bytes += bytes;
    kept_->reservation.resize(kept_->bytes);
  }

 private:
  struct Block {
    std::shared_ptr<arrow::RecordBatch> rows;
    int64_t bytes = 0;
  };
  struct Kept {
    std::mutex mutex;
    int64_t bytes = 0;
    std::map<int64_t, Block> blocks;
    std::weak_ptr<Ledger> ledger;
    Ledger::Reservation reservation;  // there
  };

  // Bytes for further blocks. Those that are there count in the ledger for which this thread reads; where that one's
  // budget is smaller than the one's before, some of them go.
  int64_t room(Kept& kept) const {
    if (bytes_) return *bytes_ - kept.bytes;
    const std::shared_ptr<Ledger> ledger = Decoding::ledger_of_this_thread();
    if (ledger == nullptr) return 0;
    const int64_t all = ledger->budget() / 2;
    if (kept.ledger.lock() != ledger) {
      while (kept.bytes > all) {
        kept.bytes -= kept.blocks.begin()->second.bytes;
        kept.blocks.erase(kept.blocks.begin());
      }
      kept.ledger = ledger;
      kept.reservation = Ledger::reserve(ledger, kept.bytes);
    }
    return all - kept.bytes;
  }

  const std::optional<int64_t> bytes_;
  const PerProcess<Kept> kept_;
};

}  // namespace

std::unique_ptr<BlockStore> memory_store(std::optional<int64_t> bytes) {
  return std::make_unique<MemoryStore>(bytes);
}

}  // namespace paceline::data
