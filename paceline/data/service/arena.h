// Memory that the data process and one rank share, from which batches get their slots.
//
// The memory is a sparse memfd: it may be as large as the machine's, and takes what its slots have touched. The data
// process allocates and frees, under a lock of its own; the rank maps the same memory and writes to the slots that it
// has been given, as it likes: no other rank sees them. What slots have touched is used again, and given back to the
// system once the budget has no room for it, or it is more than the slots that are in use, and 64 MiB.
#pragma once

#include <arrow/buffer.h>
#include <arrow/result.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "paceline/core/gaps.h"
#include "paceline/core/posix/descriptor.h"
#include "paceline/core/posix/shared_memory.h"
#include "paceline/data/memory/ledger.h"

namespace paceline::data {

/// A piece of the arena.
struct Slot {
  int64_t offset = 0;
  int64_t bytes = 0;
};

/// The data process's end. Thread-safe.
class Arena : public SpareMemory {
 public:
  /// `capacity`: in bytes, of which none is taken yet. `ledger` counts the slots.
  static arrow::Result<std::shared_ptr<Arena>> create(int64_t capacity, const std::shared_ptr<Ledger>& ledger);

  /// OutOfMemory where the slots in use leave no room.
  arrow::Result<Slot> allocate(int64_t bytes);
  /// Nothing where there is no such slot: what a rank says is not trusted.
  void free(int64_t offset);
  std::shared_ptr<arrow::MutableBuffer> buffer_of(const Slot& slot) const;

  int64_t capacity() const { return static_cast<int64_t>(memory_.bytes().size()); }
  /// Of the slots in use.
  int64_t used_bytes() const;
  /// What it takes of the machine's memory at most.
  int64_t touched_bytes() const;
  int64_t keep_at_most(int64_t bytes) override;
  const Descriptor& descriptor() const { return memory_.descriptor(); }

 private:
  struct Used {
    int64_t bytes = 0;
    Ledger::Reservation reservation;
  };

  Arena(SharedMemory memory, std::shared_ptr<Ledger> ledger);
  int64_t give_back_beyond(int64_t bytes);

  const SharedMemory memory_;
  const std::shared_ptr<Ledger> ledger_;
  mutable std::mutex mutex_;
  Gaps fresh_;    // take no memory
  Gaps touched_;  // have been slots
  std::map<int64_t, Used> used_;
  int64_t used_bytes_ = 0;
};

}  // namespace paceline::data
