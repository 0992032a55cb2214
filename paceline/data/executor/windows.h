// The windows of one epoch of a source in memory: read once, for all who consume them.
//
// A consumer is a Cursor. It takes windows one after another, and the threads of a ReadPool read what comes next, for
// all consumers of all Windows of the pool within one budget. Consumers that go roughly in step take the same windows:
// each chunk is read and decoded once, and what is mixed is mixed once (mixed_bins.h). A window stays until no consumer
// needs it, or until it has to make room for what another consumer waits for; then it is read again if it is wanted
// after all. So a consumer that stops holds nobody back.
//
// Each cursor belongs to one thread at a time; several may be used at once. What a window holds depends on source and
// order alone.
#pragma once

#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <atomic>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "paceline/data/executor/mixed_bins.h"
#include "paceline/data/memory/ledger.h"
#include "paceline/data/order/epoch_order.h"
#include "paceline/data/source/source.h"

namespace paceline::data {

class Cursor;
class ReadPool;

/// A window in memory. The ledger counts it until the last pointer to it goes.
struct LoadedWindow {
  LoadedWindow() = default;
  LoadedWindow(const LoadedWindow&) = delete;
  LoadedWindow& operator=(const LoadedWindow&) = delete;
  ~LoadedWindow();

  std::vector<std::shared_ptr<arrow::RecordBatch>> chunks;  ///< none where there are `bins`
  std::vector<int64_t> counts;                              ///< rows of each
  int64_t rows = 0;
  std::unique_ptr<const MixedBins> bins;  ///< where rows are mixed, unless their values are long
  /// Which row comes first, second, …, counted through the chunks; empty where they come as they stand.
  std::vector<uint32_t> order;
  std::vector<std::shared_ptr<Ledger::Reservation>> reservations;  ///< one for each chunk; then others

  /// The rows from `first` on, where there are no bins; `chunk` is an index of `chunks`.
  std::vector<RowRun> runs(int64_t first, int64_t count) const;
};

/// What is done with windows, of all epochs of a dataset. Thread-safe: those who read see each number as it is at the
/// time.
struct ReadAheadStatistics {
  std::atomic<int64_t> windows_read = 0;
  std::atomic<int64_t> windows_taken = 0;       ///< by cursors
  std::atomic<int64_t> waited_for_room_ns = 0;  ///< by the pool's threads, with something to read
  std::atomic<int64_t> waited_ns = 0;           ///< by cursors, for windows
};

/// What is read of one source in one order. Made once, and shared by those who consume it.
class Windows {
 public:
  /// `order`: of the source's chunks. Nothing is read before a cursor takes its first window.
  Windows(std::shared_ptr<const Source> source, EpochOrder order, std::shared_ptr<ReadPool> pool,
          std::shared_ptr<ReadAheadStatistics> statistics = std::make_shared<ReadAheadStatistics>());
  /// Waits for reads that are under way.
  ~Windows();
  Windows(const Windows&) = delete;
  Windows& operator=(const Windows&) = delete;

  const Source& source() const { return *source_; }
  const EpochOrder& order() const { return order_; }
  ReadPool& pool() const { return *pool_; }
  /// Chunks that are in memory now, and their bytes as the ledger counts them.
  std::pair<int64_t, int64_t> in_memory() const;
  /// Whether a window could not be read. Its consumers get the error; nobody else should become one.
  bool has_failed() const;

  /// Whether consumers are still to come that begin where the first one has begun. Until they do, windows that all have
  /// left stay for them. When these have to make room, nothing is kept any more.
  void expect_more(bool more);

 private:
  friend class Cursor;
  friend class ReadPool;

  // A window that is there, or about to be.
  struct Slot {
    std::shared_ptr<LoadedWindow> reading;
    std::vector<std::optional<DealtRows>> dealt;  // chunks, as soon as they are read, where that can be
    std::shared_ptr<const LoadedWindow> ready;
    arrow::Status status;
    int64_t started = 0;  // chunks that are read or being read
    int64_t left = 0;     // chunks that are not there yet
    int64_t at_work = 0;  // threads
  };
  // Of windows that only consumers want which have begun early.
  static constexpr int64_t kLater = std::numeric_limits<int64_t>::max();
  // What is dropped; it goes once the ledger's mutex is free.
  using Dropped = std::vector<std::shared_ptr<const void>>;

  const Window& window(int64_t number) const { return order_.windows()[static_cast<size_t>(number)]; }
  int64_t count() const { return static_cast<int64_t>(order_.windows().size()); }

  // The following are called with the ledger's mutex held.
  bool has_unread(int64_t number) const;
  int64_t cost_of_chunk(int64_t place) const;
  int64_t cost_of_next(int64_t number) const;
  int64_t cost_of_unread(int64_t first, int64_t end);
  int64_t start_next(int64_t number);
  int64_t first_unread(Cursor& cursor) const;
  int64_t distance_of(int64_t number) const;
  bool may_drop(const std::pair<const int64_t, Slot>& slot) const;
  void drop(std::map<int64_t, Slot>::iterator slot, Dropped& dropped);
  void drop_of_sleepers(Dropped& dropped);
  void drop_passed(Dropped& dropped);

  bool is_waited_for(int64_t number) const;
  void finish(Slot& slot, std::unique_lock<std::mutex>& lock, Dropped& dropped);

  // Without it.
  void read(int64_t number, int64_t chunk, Ledger::Reservation reservation, int64_t expected);
  bool can_deal(const arrow::RecordBatch& chunk) const;
  arrow::Result<DealtRows> dealt(int64_t number, int64_t chunk, std::shared_ptr<arrow::RecordBatch> rows) const;
  arrow::Status put_in_order(int64_t number, LoadedWindow& loaded, std::vector<std::optional<DealtRows>> dealt) const;
  arrow::Status put_into_bins(int64_t number, LoadedWindow& loaded, std::vector<std::optional<DealtRows>> dealt) const;

  const std::shared_ptr<const Source> source_;
  const EpochOrder order_;
  const std::shared_ptr<ReadPool> pool_;
  const std::shared_ptr<Ledger> ledger_;
  const std::shared_ptr<ReadAheadStatistics> statistics_;
  std::map<int64_t, Slot> slots_;
  std::vector<Cursor*> cursors_;
  bool expects_more_ = false;
  int64_t at_work_ = 0;               // threads
  std::vector<int64_t> bytes_until_;  // each place in the order, as listed; empty until somebody asks
  double expansion_ = 1.0;            // bytes of chunks, by what their source has said; the largest so far
  bool has_long_values_ = false;      // so that rows are not dealt
};

/// What is read for a consumer.
enum class Reading {
  ahead,               ///< what it takes, and what comes behind that
  when_asked,          ///< only what it takes
  when_there_is_room,  ///< it begins early: only what it takes, where nobody else needs the room
};

/// A consumer of windows.
class Cursor {
 public:
  /// From window number `window` on.
  Cursor(std::shared_ptr<Windows> windows, int64_t window, Reading reading = Reading::ahead);
  ~Cursor();
  Cursor(const Cursor&) = delete;
  Cursor& operator=(const Cursor&) = delete;

  /// Waits for a window, which must not be before those that are left. An error of the source is given at each call.
  /// Keep what is given no longer than it is used: it cannot make room meanwhile.
  arrow::Result<std::shared_ptr<const LoadedWindow>> take(int64_t number);
  /// Whether take() would give that window, or its error, without waiting.
  bool is_there(int64_t number) const;
  /// From now on. Any thread may call it.
  void set_reading(Reading reading);
  /// Whether what is left of the epoch is there or being read, but for what the threads take next. Any thread may
  /// call it.
  bool is_near_end();
  /// Leaves the windows before `number`. It may also go back.
  void move_to(int64_t number);

 private:
  friend class ReadPool;
  friend class Windows;

  const Windows::Slot* decided(int64_t number) const;

  const std::shared_ptr<Windows> windows_;
  Reading reading_;
  int64_t window_;       // the first that it needs
  int64_t ahead_;        // before it, all from window_ on are there or being read
  int64_t wanted_ = -1;  // which it waits for
  uint64_t waits_since_ = 0;
  uint64_t moved_ = 0;     // when it has last gone on or waited, on the pool's clock
  bool is_awake_ = false;  // has taken one, and none had to make room since
};

}  // namespace paceline::data
