// Arena: the memory that one rank shares with the others of its node.
//
// One anonymous file that all of them map: its board, slots for what is small, and a heap for tensors. A block of the
// heap has all its pages from the beginning, so that a tensor that was granted can be written to, whatever others have
// been granted meanwhile. Pages of freed blocks stay for the next ones, as long as the group is there and all groups of
// the node's ranks together keep less than a quarter of the memory that were left without: sharded training has new
// blocks in each step, and pages of the kernel's cost more than copying. Ownership: whoever has an Arena keeps the
// mapping; blocks of the heap are the owner's, and must be freed before it. A fork of the process reads its parent's
// blocks, as its parent changes them, and writes to pages of its own from the first write on; it has no blocks itself,
// and frees none. Where a group has failed, take_out() gives this process pages of its own: a rank that was stopped
// while it reduced in all arenas goes on writing there when it wakes up, and what is there by then may be the next
// step's. Threading: allocate(), free() and take_out() from any thread; what is behind the pointers is the users' to
// synchronise.
#pragma once

#include <arrow/result.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "paceline/collective/board.h"
#include "paceline/core/gaps.h"
#include "paceline/core/posix/forks.h"
#include "paceline/core/posix/shared_memory.h"

namespace paceline::collective {

/// Small messages are published here, one place for each of the operations that can be under way.
inline constexpr size_t kSlotBytes = size_t{64} << 10;
/// Pieces of large messages, where neither the heap has them nor the kernel lets others read them.
inline constexpr size_t kStagingBytes = size_t{256} << 10;
inline constexpr int kStagings = 2;

/// What is on its way to one rank: longer messages go piece by piece.
inline constexpr size_t kMailBytes = size_t{1} << 20;

/// What all ranks see of an arena.
class ArenaView {
 public:
  explicit ArenaView(SharedMemory memory) : memory_(std::move(memory)) {}

  Board& board() const { return *reinterpret_cast<Board*>(data()); }
  std::byte* slot(uint64_t operation) const;
  std::byte* staging(uint64_t piece) const;
  std::byte* mail_to(int rank) const;
  std::byte* at(uint64_t offset) const { return data() + offset; }
  /// Where `address` is in it; nothing when it is not.
  std::optional<uint64_t> offset_of(const void* address) const;
  const SharedMemory& memory() const { return memory_; }

 protected:
  std::byte* data() const { return memory_.bytes().data(); }

  SharedMemory memory_;
};

/// How large heaps are, of which this process maps those of `ranks` ranks: as the machine's memory, unless that took
/// more than an eighth of the address space that the process has left, or the limit of a file's size.
uint64_t heap_bytes(int ranks);

/// One's own.
class Arena final : public ArenaView {
 public:
  /// `bytes`: of the heap. `ranks`: of the node, that keep pages.
  static arrow::Result<std::shared_ptr<Arena>> create(uint64_t bytes, int ranks = 1);
  /// Maps that of another rank. Invalid when another version of Paceline has made it.
  static arrow::Result<ArenaView> open(Descriptor memory);

  Arena(SharedMemory memory, int ranks);
  ~Arena();

  /// A block of the heap, aligned to a page, with whatever a freed one had in it; null for no bytes. OutOfMemory with
  /// wanted and got where the machine, or the control group that the process is in, has less; CapacityError where the
  /// heap has no gap. Invalid in a fork.
  arrow::Result<void*> allocate(size_t bytes);
  void free(void* block);
  /// Pages of freed blocks go back, unless another thread has the arena at this moment.
  void give_back_kept_if_idle();
  /// The same in any case, also in future: the group has ended.
  void keep_no_more();
  /// Gives a range of the heap pages that no other rank sees or writes to, with what is in them; also the rest of the
  /// pages at its ends, where what another thread writes in the microseconds of their copying is lost. Copies: 0.1 to
  /// 0.6 s for a GiB. False where there is no address space for it, and a part stays as it is. Nothing in a fork.
  bool take_out(uint64_t offset, uint64_t bytes);
  /// For a fork: from now on what it writes is its own.
  void detach_fork() const;

 private:
  arrow::Status check_left(uint64_t bytes, uint64_t done);
  arrow::Status reserve(uint64_t offset, uint64_t bytes);
  void give_back(uint64_t offset, uint64_t bytes);
  void keep(uint64_t offset, uint64_t bytes);
  void give_back_kept();
  bool take_out_part(uint64_t from, uint64_t bytes);

  const HomeProcess home_;
  std::mutex mutex_;
  bool keeps_ = true;
  Gaps free_;                           // without pages
  Gaps kept_;                           // with pages
  std::map<uint64_t, uint64_t> used_;   // offset and bytes
  std::map<uint64_t, uint64_t> taken_;  // out, likewise; changes while no fork is made
};

}  // namespace paceline::collective
