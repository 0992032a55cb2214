// Regions of memory that this process and those that call functions have in common (memfd): they grow, and are used
// again, since fresh memory costs as much as a copy.
//
// A region has one user at a time, who holds a shared pointer to it: also the arrays that are read from it. When the
// last one goes, the region is free for the next, as long as the budget of whoever reads (memory/ledger.h) has room
// for it. What a user of a region needs is counted elsewhere, before the region is taken.
#pragma once

#include <arrow/buffer.h>
#include <arrow/result.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "paceline/core/posix/shared_memory.h"
#include "paceline/data/memory/ledger.h"

namespace paceline::data {

/// Not thread-safe: its user's. The other process may write to it, and let it grow, while it has the turn.
class SharedRegion {
 public:
  SharedRegion(int64_t id, SharedMemory memory) : id_(id), memory_(std::move(memory)) {}

  int64_t id() const { return id_; }
  uint8_t* data() const { return reinterpret_cast<uint8_t*>(memory_.bytes().data()); }
  int64_t size() const { return static_cast<int64_t>(memory_.bytes().size()); }
  const Descriptor& descriptor() const { return memory_.descriptor(); }
  /// At least `bytes` are mapped from now on; data() may be another. What was written stays.
  arrow::Status reserve(int64_t bytes);
  /// So many bytes from the beginning on have been written: they take memory.
  void has_written(int64_t bytes) { touched_ = std::max(touched_, bytes); }
  int64_t touched() const { return touched_; }
  /// What has been written is gone, and takes no memory any more.
  void clear();

 private:
  const int64_t id_;
  SharedMemory memory_;
  int64_t touched_ = 0;
};

/// Those of a pool. Thread-safe. Regions may outlive it.
class SharedRegions {
 public:
  /// Keeps at most `most_free` regions that nobody uses.
  explicit SharedRegions(size_t most_free);

  /// One of about `bytes` or more, free until now, or a new one. What is free counts in the ledger for which this
  /// thread reads.
  arrow::Result<std::shared_ptr<SharedRegion>> take(int64_t bytes);
  /// The region is not to be used again by others once its user has done with it.
  void retire(const SharedRegion& region);
  /// Whether a region of this number is there, in use or free.
  bool has(int64_t id) const;

 private:
  struct Store : public SpareMemory {
    explicit Store(size_t most) : most_free(most) {}
    int64_t keep_at_most(int64_t bytes) override;

    std::mutex mutex;
    const size_t most_free;
    int64_t last_id = 0;
    std::set<int64_t> ids;                            // of regions that will be used again
    std::vector<std::unique_ptr<SharedRegion>> free;  // the oldest first
    std::weak_ptr<Ledger> ledger;                     // in which they count
  };
  static void give_back(const std::shared_ptr<Store>& store, std::unique_ptr<SharedRegion> region);

  const std::shared_ptr<Store> store_;
};

/// `bytes` of a region from `first` on, as a buffer that holds the region. Invalid where the region is smaller.
arrow::Result<std::shared_ptr<arrow::Buffer>> part_of(const std::shared_ptr<SharedRegion>& region, int64_t first,
                                                      int64_t bytes);

}  // namespace paceline::data
