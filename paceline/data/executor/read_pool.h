// Threads that read windows for all consumers of a process, within one budget of bytes.
//
// What a consumer waits for comes first; then the windows that consumers will want next, those who have least ahead of
// them first, as long as the budget has room. For what is waited for, windows are dropped if the budget has no room:
// those of consumers that have stopped, then those that are wanted last. Only if nothing can be dropped it is read
// beyond the budget, so that a chunk larger than the budget is slow, not a deadlock. Consumers that have begun early
// come behind all others, for which their windows are dropped.
//
// Any thread may use a pool. Windows hold it, so it ends with the last of them.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "paceline/data/executor/windows.h"

namespace paceline::data {

/// Shared by all Windows of a process: see windows.h.
class ReadPool {
 public:
  /// `threads`: that read and decode; with 0 each consumer does that for itself, and nothing is read ahead.
  ReadPool(int threads, int64_t budget_bytes);
  /// Ends the threads.
  ~ReadPool();
  ReadPool(const ReadPool&) = delete;
  ReadPool& operator=(const ReadPool&) = delete;

  const std::shared_ptr<Ledger>& ledger() const { return ledger_; }
  /// For what is mixed.
  const std::shared_ptr<LargeBuffers>& buffers() const { return buffers_; }

 private:
  friend class Cursor;
  friend class Windows;

  // A chunk to read, for which room is reserved, or a piece to mix.
  struct Task {
    Windows* windows = nullptr;
    int64_t window = 0;
    int64_t chunk = -1;  // its place in the order
    int64_t piece = -1;
    Ledger::Reservation reservation;
  };

  void work();
  bool work_once(std::unique_lock<std::mutex>& lock, const Cursor* only_for);

  // The following are called with the ledger's mutex held.
  std::optional<Task> next_task(const Cursor* only_for, Windows::Dropped& dropped);
  Cursor* longest_waiting() const;
  Cursor* least_ahead() const;
  Task start(Windows& windows, int64_t number);
  std::optional<Task> start_mixing(const Cursor* only_for);
  void make_room(int64_t bytes, Windows::Dropped& dropped);
  bool drop_of_stopped(Windows::Dropped& dropped);
  void drop_last_wanted(int64_t distance, Windows::Dropped& dropped);

  const std::shared_ptr<Ledger> ledger_;
  const std::shared_ptr<LargeBuffers> buffers_;
  const bool reads_ahead_;
  std::vector<Windows*> all_;
  uint64_t clock_ = 0;                              // goes on with each step of a cursor
  uint64_t waits_ = 0;                              // so far, of cursors
  std::shared_ptr<ReadAheadStatistics> held_back_;  // of what would be read next if there was room
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

/// The process's pool with these options: all who use it at a time share one.
std::shared_ptr<ReadPool> shared_pool(int threads, int64_t budget_bytes);

}  // namespace paceline::data
