// What a thread tells the ledger while it decodes.
#pragma once

#include <cstdint>
#include <memory>

#include "paceline/data/memory/ledger.h"

namespace paceline::data {

/// While it lives, this thread decodes what room is reserved for: about `expected` bytes, which it is going to
/// allocate. Until it does, memory that is kept for its next use may be in their room.
class Decoding {
 public:
  explicit Decoding(std::shared_ptr<Ledger> ledger, int64_t expected = 0);
  ~Decoding();
  Decoding(const Decoding&) = delete;
  Decoding& operator=(const Decoding&) = delete;

  /// The ledger of what this thread decodes; a null pointer where it decodes nothing.
  static std::shared_ptr<Ledger> ledger_of_this_thread();
  /// This thread has allocated so many bytes, or freed them, where the number is negative.
  static void has_allocated(int64_t bytes);
  /// Of what this thread has allocated somebody else keeps so many bytes, for which there is a reservation.
  static void leave(int64_t bytes);
  /// The bytes that this thread has allocated and not freed since, without those that it has left: more than its rows
  /// have where blocks are larger than what is in them.
  int64_t allocated() const { return allocated_; }

 private:
  const std::shared_ptr<Ledger> ledger_;
  const int64_t expected_;
  int64_t allocated_ = 0;
  int64_t to_come_;    // bytes that are expected and not allocated; below 0 where it has been more
  int64_t announced_;  // of these, to the ledger
  Decoding* const former_;
};

}  // namespace paceline::data
