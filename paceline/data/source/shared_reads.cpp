#include "paceline/data/source/shared_reads.h"

#include <arrow/record_batch.h>
#include <arrow/util/byte_size.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

#include "paceline/core/posix/forks.h"
#include "paceline/data/memory/decoding.h"

namespace paceline::data {
namespace {

constexpr int64_t kMostBytesKept = int64_t{64} << 20;
constexpr int64_t kPartKept = 8;  // of the budget

class SharedReads : public Source {
 public:
  explicit SharedReads(std::shared_ptr<const Source> source) : source_(std::move(source)) {}

  arrow::Result<std::shared_ptr<arrow::Schema>> schema() const override { return source_->schema(); }
  const std::vector<ChunkSize>& chunks() const override { return source_->chunks(); }
  bool counts_rows() const override { return source_->counts_rows(); }
  bool has_rows_in_memory() const override { return source_->has_rows_in_memory(); }
  uint64_t fingerprint() const override { return source_->fingerprint(); }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> read(int64_t chunk, uint64_t key) const override {
    State& state = *state_;
    std::unique_lock lock(state.mutex);
    const std::pair which(chunk, key);
    while (true) {
      const auto found = state.reads.find(which);
      if (found == state.reads.end()) break;
      if (auto batch = found->second.batch.lock()) return batch;
      if (!found->second.is_under_way) break;
      state.done.wait(lock);
    }
    state.reads[which].is_under_way = true;
    lock.unlock();
    std::deque<Kept> dropped;  // goes without the lock
    Kept kept;
    arrow::Result<std::shared_ptr<arrow::RecordBatch>> batch;
    try {
      batch = read_counted(chunk, key, kept);
    } catch (...) {
      lock.lock();
      state.reads.erase(which);
      state.done.notify_all();
      throw;
    }
    lock.lock();
    state.reads.erase(which);  // after an error the next one tries for himself
    if (batch.ok()) {
      std::erase_if(state.reads,
                    [](const auto& read) { return !read.second.is_under_way && read.second.batch.expired(); });
      state.reads[which].batch = *batch;
      if (!source_->has_rows_in_memory()) keep(state, std::move(kept), dropped);
    }
    state.done.notify_all();
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
    int64_t most_bytes = kMostBytesKept;  // of all that are kept beside it
    Ledger::Reservation reservation;
  };

  struct State {
    std::mutex mutex;
    std::condition_variable done;
    std::map<std::pair<int64_t, uint64_t>, Read> reads;
    std::deque<Kept> kept;  // the oldest first
    int64_t kept_bytes = 0;
  };

  // Nobody waits for room here: readers of a part have reserved what all of the chunk needs.
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> read_counted(int64_t chunk, uint64_t key, Kept& kept) const {
    const std::shared_ptr<Ledger> ledger = Decoding::ledger_of_this_thread();
    const bool is_there = source_->has_rows_in_memory();
    ARROW_ASSIGN_OR_RAISE(kept.batch, source_->read(chunk, key));
    if (is_there) return kept.batch;
    kept.bytes = arrow::util::ReferencedBufferSize(*kept.batch).ValueOr(0);
    if (ledger != nullptr) {
      kept.reservation = Ledger::reserve(ledger, kept.bytes);
      kept.most_bytes = std::min(kMostBytesKept, ledger->budget() / kPartKept);
    }
    Decoding::leave(kept.bytes);
    return kept.batch;
  }

  // The newest stays, whatever its size: its neighbours want it.
  static void keep(State& state, Kept newest, std::deque<Kept>& dropped) {
    state.kept_bytes += newest.bytes;
    const int64_t most = newest.most_bytes;
    state.kept.push_back(std::move(newest));
    while (state.kept_bytes > most && state.kept.size() > 1) {
      state.kept_bytes -= state.kept.front().bytes;
      dropped.push_back(std::move(state.kept.front()));
      state.kept.pop_front();
    }
  }

  const std::shared_ptr<const Source> source_;
  const PerProcess<State> state_;
};

}  // namespace

std::shared_ptr<const Source> shared_reads(std::shared_ptr<const Source> source) {
  return std::make_shared<SharedReads>(std::move(source));
}

}  // namespace paceline::data
