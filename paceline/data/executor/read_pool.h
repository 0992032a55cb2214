// Threads that read windows for all consumers of a process, within one budget of bytes.
//
// What a consumer waits for comes first; then the windows that consumers will want next, those who have least ahead of
// them first, as long as the budget has room. For what is waited for, windows are dropped if the budget has no room:
// those of consumers that have stopped, then those that are wanted last. Only if nothing can be dropped it is read
// beyond the budget, one chunk of its dataset after the other, so that a chunk larger than the budget is slow, not a
// deadlock. A thread that waits for a window in the midst of reading another, in a function that reads a dataset, reads
// it itself: all threads may be in such functions. What consumers take that have begun early is read where the budget
// has room for that and for all that others are still to read, and dropped where others need it after all.
//
// How many threads are at work is found as it goes, so that a trainer on the same cores has them: all while somebody
// waits, and the fewer the further consumers are from waiting (threads_reading_ahead()).
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

/// How many of `threads` may read for a consumer that has `windows_ahead` windows before it, which are there or being
/// read: all of them up to two windows a thread, then one less for each two windows more, and one at the end. Where the
/// consumer takes windows as fast as they are read it has few before it, so all threads read; where it is slower there
/// come to be as many as it takes few threads to keep.
int threads_reading_ahead(int threads, int64_t windows_ahead);

/// Shared by all Windows of a process: see windows.h.
class ReadPool {
 public:
  /// `threads`: that read and decode, at most; with 0 each consumer does that for itself, and nothing is read ahead.
  ReadPool(int threads, int64_t budget_bytes);
  /// Ends the threads.
  ~ReadPool();
  ReadPool(const ReadPool&) = delete;
  ReadPool& operator=(const ReadPool&) = delete;

  const std::shared_ptr<Ledger>& ledger() const { return ledger_; }

 private:
  friend class Cursor;
  friend class Windows;

  // A chunk to read, for which room is reserved.
  struct Task {
    Windows* windows = nullptr;
    int64_t window = 0;
    int64_t chunk = 0;  // its place in the order
    Ledger::Reservation reservation;
    int64_t expected = 0;  // bytes of it that the thread is going to allocate
  };

  /// Whether the calling thread is in the midst of reading a chunk, of any pool.
  static bool is_in_reading();
  void work();
  bool work_once(std::unique_lock<std::mutex>& lock, const Cursor* only_for);

  // The following are called with the ledger's mutex held.
  std::optional<Task> next_task(const Cursor* only_for, Windows::Dropped& dropped);
  Cursor* longest_waiting() const;
  Cursor* least_ahead(Reading reading) const;
  static int64_t cost_of_next(const Cursor& cursor);
  int64_t cost_of_all_unread() const;
  Task start(Windows& windows, int64_t number);
  bool has_thread_for(int64_t windows_ahead) const;
  void make_room(int64_t bytes, Windows::Dropped& dropped);
  bool drop_of_stopped(Windows::Dropped& dropped);
  void drop_last_wanted(int64_t distance, Windows::Dropped& dropped);

  const std::shared_ptr<Ledger> ledger_;
  const int most_threads_;
  const bool reads_ahead_;
  int at_work_ = 0;  // threads of the pool
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
