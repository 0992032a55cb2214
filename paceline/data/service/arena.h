// Memory that the data process and one rank share, from which batches get their slots.
//
// The memory is a sparse memfd: it may be as large as the machine's, and takes what its slots have touched. The data
// process allocates and frees, under a lock of its own; the rank maps the same memory and writes to the slots that it
// has been given, as it likes: no other rank sees them. Free memory at the end is given back to the system once it is
// more than the slots that are in use, and 64 MiB.
#pragma once

#include <arrow/buffer.h>
#include <arrow/result.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "paceline/core/posix/descriptor.h"
#include "paceline/core/posix/shared_memory.h"
#include "paceline/data/executor/ledger.h"

namespace paceline::data {

/// A piece of the arena.
struct Slot {
  int64_t offset = 0;
  int64_t bytes = 0;
};

/// The data process's end. Thread-safe.
class Arena {
 public:
  /// `capacity`: in bytes, of which none is taken yet. `ledger` counts the slots.
  static arrow::Result<std::unique_ptr<Arena>> create(int64_t capacity, std::shared_ptr<Ledger> ledger);

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
  const Descriptor& descriptor() const { return memory_.descriptor(); }

 private:
  struct Used {
    int64_t bytes = 0;
    Ledger::Reservation reservation;
  };

  Arena(SharedMemory memory, std::shared_ptr<Ledger> ledger);

  const SharedMemory memory_;
  const std::shared_ptr<Ledger> ledger_;
  mutable std::mutex mutex_;
  std::map<int64_t, int64_t> free_;  // bytes by offset
  std::map<int64_t, Used> used_;
  int64_t used_bytes_ = 0;
  int64_t touched_ = 0;  // the end of what slots have had since it was given back last
};

}  // namespace paceline::data
