// The bytes that all readers of a process may hold together, and how many they hold.
//
// Whoever is going to need memory reserves it first, and gives the reservation back by ending it. Nobody is refused:
// whether there is room is asked before (ReadPool does), and what a consumer waits for may go beyond the budget.
//
// A batch that a consumer keeps may keep a whole chunk in memory. It counts as well, but no more than half of the
// budget does: who collects batches is not to stop all reading. (Who uses one while the next is made may keep two
// chunks.)
//
// Memory that was used is kept for its next use (SpareMemory), as long as nothing else needs the room.
//
// Any thread may use a ledger and end a reservation, but not while it holds mutex(), which ending takes. Those who wait
// for room wait on changed() with that mutex: so no release goes unnoticed between their look and their sleep.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "paceline/core/posix/condition.h"
#include "paceline/core/posix/forks.h"
#include "paceline/data/memory/budget.h"

namespace paceline::data {

/// Who keeps memory for its next use.
class SpareMemory {
 public:
  virtual ~SpareMemory() = default;
  /// Keeps at most so many bytes from now on, and returns how many it keeps. Nobody calls it who holds a lock.
  virtual int64_t keep_at_most(int64_t bytes) = 0;
};

/// A budget of bytes; held by shared pointers, since reservations may outlive those who made them.
///
///     const auto ledger = std::make_shared<Ledger>(int64_t{256} << 20);
///     Ledger::Reservation room = Ledger::reserve(ledger, bytes);  // until it ends
class Ledger {
 public:
  /// Some bytes of a ledger; none after it was moved from.
  class Reservation {
   public:
    Reservation() = default;
    Reservation(Reservation&& other) noexcept { swap(other); }
    Reservation& operator=(Reservation&& other) noexcept {
      swap(other);
      return *this;
    }
    Reservation(const Reservation&) = delete;
    Reservation& operator=(const Reservation&) = delete;
    ~Reservation() { resize(0); }

    int64_t bytes() const { return bytes_; }
    /// For `bytes` from now on, once the need is known better.
    void resize(int64_t bytes);
    /// From now on nobody holds them but batches of consumers.
    void leave_to_batches();
    /// Some of its bytes as a reservation of their own, at most all.
    Reservation split(int64_t bytes);

   private:
    friend class Ledger;
    void swap(Reservation& other) noexcept {
      std::swap(ledger_, other.ledger_);
      std::swap(bytes_, other.bytes_);
      std::swap(in_batches_, other.in_batches_);
    }

    std::shared_ptr<Ledger> ledger_;
    int64_t bytes_ = 0;
    bool in_batches_ = false;
  };

  explicit Ledger(int64_t budget) : budget_(budget) {}

  static Reservation reserve(const std::shared_ptr<Ledger>& ledger, int64_t bytes);
  /// The same for who holds mutex() already.
  static Reservation reserve_locked(const std::shared_ptr<Ledger>& ledger, int64_t bytes);

  int64_t budget() const { return budget_; }
  /// Whether so much more fits. The caller holds mutex().
  bool has_room(int64_t bytes) const { return held_ + std::min(in_batches_, budget_ / 2) + bytes <= budget_; }
  /// Without what only batches hold.
  int64_t held() const;
  /// The most that has been held at a time.
  int64_t peak() const;

  /// Keeps memory as long as there is room. Those that have come first keep theirs last.
  void add_spare(std::weak_ptr<SpareMemory> spare);
  /// So many bytes more that are reserved are not in use yet, or fewer: memory that is kept may stay in their room.
  void expect(int64_t bytes) { expected_ += bytes; }
  /// What is kept beyond the room goes. Whoever begins to use memory that is reserved, or keeps more, calls it, without
  /// any lock.
  void trim_spare();

  std::mutex& mutex() { return mutex_; }
  Condition& changed() { return changed_; }

 private:
  void add(int64_t bytes);

  const int64_t budget_;
  const HomeProcess home_;  // in its forks, ending a reservation does nothing
  mutable std::mutex mutex_;
  Condition changed_;
  int64_t held_ = 0;
  int64_t in_batches_ = 0;
  int64_t peak_ = 0;
  std::atomic<int64_t> expected_ = 0;
  std::mutex spare_mutex_;
  std::vector<std::weak_ptr<SpareMemory>> spare_;
};

}  // namespace paceline::data
