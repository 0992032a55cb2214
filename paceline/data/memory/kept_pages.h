// Blocks of memory that are used again.
//
// Fresh memory costs more than copying rows into it: the kernel clears each page first. So a block that is freed stays
// for the next one of its size, as long as the ledger has room for it. A general allocator keeps what was freed as
// well, but nobody can tell how much, nor how to get it back: jemalloc took 1.6 times a budget of 256 MB.
//
// Any thread may use it, but not while it holds the ledger's mutex. In a fork nothing is kept.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "paceline/core/posix/forks.h"
#include "paceline/data/memory/ledger.h"

namespace paceline::data {

/// Where blocks come from and go to. It tells the thread's Decoding how large they are.
class KeptPages : public SpareMemory {
 public:
  /// Smaller ones are an allocator's.
  static constexpr int64_t kSmallest = int64_t{64} << 10;

  /// A block of `bytes`, at least kSmallest, whose content is arbitrary; at a page. Null where there is no memory.
  uint8_t* allocate(int64_t bytes);
  /// `bytes`: as it was allocated.
  void free(uint8_t* block, int64_t bytes);
  /// The block with another size; it may be at another place. What fits is in it. Null, and nothing has changed, where
  /// there is no memory. One that becomes a little smaller stays as large as it is: builders grow by doubling and
  /// shrink at their end, and the next one finds blocks of all sizes that it takes on its way.
  uint8_t* resize(uint8_t* block, int64_t bytes, int64_t new_bytes);

  /// From now on what is kept counts there: in one ledger, the last that was named and has not left.
  void count_in(const std::shared_ptr<Ledger>& ledger);
  /// Without any ledger nothing is kept.
  void leave(const std::shared_ptr<Ledger>& ledger);
  int64_t keep_at_most(int64_t bytes) override;
  /// Of blocks that are there, and of those that are kept.
  int64_t bytes() const;

 private:
  struct Kept {
    uint8_t* block = nullptr;
    int64_t time = 0;
  };
  struct Own {
    std::mutex mutex;
    std::map<int64_t, std::deque<Kept>> kept;    // by size, the oldest first
    std::unordered_map<uint8_t*, int64_t> used;  // the sizes
    int64_t kept_bytes = 0;
    int64_t used_bytes = 0;
    int64_t time = 0;
    std::vector<std::shared_ptr<Ledger>> ledgers;
  };

  void trim();

  const PerProcess<Own> own_;
};

/// Those of the process. They never end.
const std::shared_ptr<KeptPages>& kept_pages();

}  // namespace paceline::data
