#include "paceline/data/executor/read_pool.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "paceline/core/posix/forks.h"
#include "paceline/core/posix/priority.h"
#include "paceline/core/posix/thread.h"
#include "paceline/data/memory/kept_pages.h"

namespace paceline::data {

int threads_reading_ahead(int threads, int64_t windows_ahead) {
  const int64_t too_many = std::max<int64_t>(windows_ahead - 2 * int64_t{threads}, 0) / 2;
  return static_cast<int>(std::max<int64_t>(threads - too_many, 1));
}

namespace {

// For what is not counted: blocks are a little larger than what is in them, and threads, pages that are being decoded
// and small objects take some, too. Nobody has so small a budget that this matters but tests.
int64_t counted(int64_t budget) {
  constexpr int64_t kSmall = int64_t{64} << 20;
  constexpr int64_t kMostUncounted = int64_t{32} << 20;
  return budget < kSmall ? budget : budget - std::min(budget / 16, kMostUncounted);
}

thread_local int readings = 0;  // that this thread is in the midst of

}  // namespace

bool ReadPool::is_in_reading() {
  return readings > 0;
}

ReadPool::ReadPool(int threads, int64_t budget_bytes)
    : ledger_(std::make_shared<Ledger>(counted(budget_bytes))), most_threads_(threads), reads_ahead_(threads > 0) {
  ledger_->add_spare(kept_pages());
  kept_pages()->count_in(ledger_);
  for (int i = 0; i < threads; ++i) threads_.push_back(start_thread([this] { work(); }));
}

ReadPool::~ReadPool() {
  {
    const std::lock_guard lock(ledger_->mutex());
    stopped_ = true;
  }
  ledger_->changed().notify_all();
  for (std::thread& thread : threads_) thread.join();
  kept_pages()->leave(ledger_);
}

void ReadPool::work() {
  never_preempt();
  std::unique_lock lock(ledger_->mutex());
  while (!stopped_) {
    held_back_ = nullptr;
    ++at_work_;
    const bool has_worked = work_once(lock, nullptr);
    --at_work_;
    if (has_worked) continue;
    const std::shared_ptr<ReadAheadStatistics> held_back = held_back_;
    const auto since = std::chrono::steady_clock::now();
    ledger_->changed().wait(lock);
    if (held_back != nullptr) held_back->waited_for_room_ns += (std::chrono::steady_clock::now() - since).count();
  }
}

// Does what is most urgent, or what one cursor waits for, without the lock meanwhile; false where there is nothing to
// do.
bool ReadPool::work_once(std::unique_lock<std::mutex>& lock, const Cursor* only_for) {
  Windows::Dropped dropped;
  std::optional<Task> task = next_task(only_for, dropped);
  if (!task && dropped.empty()) return false;
  lock.unlock();
  dropped.clear();
  if (task) {
    ++readings;
    task->windows->read(task->window, task->chunk, std::move(task->reservation), task->expected);
    --readings;
  }
  lock.lock();
  return true;
}

// None also where windows have been dropped, to be asked again once they are gone.
std::optional<ReadPool::Task> ReadPool::next_task(const Cursor* only_for, Windows::Dropped& dropped) {
  if (only_for != nullptr && !only_for->windows_->has_unread(only_for->wanted_)) return std::nullopt;
  if (const Cursor* cursor = only_for != nullptr ? only_for : longest_waiting()) {
    const int64_t cost = cursor->windows_->cost_of_next(cursor->wanted_);
    make_room(cost, dropped);
    if (!dropped.empty()) return std::nullopt;
    // What somebody waits for is read in any case, but where there is no room one chunk of it after the other. Not one
    // of all: what is being read may wait for this, as where a function reads another dataset.
    if (ledger_->has_room(cost) || cursor->windows_->at_work_ == 0) return start(*cursor->windows_, cursor->wanted_);
    held_back_ = cursor->windows_->statistics_;
    return std::nullopt;
  }
  const Cursor* cursor = least_ahead(Reading::ahead);
  if (cursor != nullptr && !has_thread_for(cursor->ahead_ - cursor->window_)) cursor = nullptr;
  const int64_t cost = cursor == nullptr ? 0 : cost_of_next(*cursor);
  // What is asked for early is read first, so that it is there in time; but only where nothing that is still to be read
  // will want its room: it would be read twice.
  if (const Cursor* early = least_ahead(Reading::when_there_is_room);
      early != nullptr && has_thread_for(0) &&
      ledger_->has_room(cost_of_all_unread() + early->windows_->cost_of_unread(early->ahead_, early->ahead_ + 1))) {
    return start(*early->windows_, early->ahead_);
  }
  if (cursor == nullptr) return std::nullopt;
  if (!ledger_->has_room(cost)) drop_last_wanted(Windows::kLater - 1, dropped);
  if (!dropped.empty()) return std::nullopt;
  if (ledger_->has_room(cost)) return start(*cursor->windows_, cursor->ahead_);
  held_back_ = cursor->windows_->statistics_;
  return std::nullopt;
}

// Of the epochs that are being read.
int64_t ReadPool::cost_of_all_unread() const {
  int64_t cost = 0;
  for (Windows* windows : all_) {
    int64_t first = windows->count();
    for (Cursor* cursor : windows->cursors_) {
      if (cursor->reading_ == Reading::ahead && cursor->is_awake_) {
        first = std::min(first, windows->first_unread(*cursor));
      }
    }
    cost += windows->cost_of_unread(first, windows->count());
  }
  return cost;
}

int64_t ReadPool::cost_of_next(const Cursor& cursor) {
  return cursor.windows_->cost_of_next(cursor.ahead_);
}

// For a window of which something is still to be read.
Cursor* ReadPool::longest_waiting() const {
  Cursor* longest = nullptr;
  for (const Windows* windows : all_) {
    for (Cursor* cursor : windows->cursors_) {
      if (cursor->wanted_ < 0 || cursor->reading_ == Reading::when_there_is_room) continue;
      if (!windows->has_unread(cursor->wanted_)) continue;
      if (longest == nullptr || cursor->waits_since_ < longest->waits_since_) longest = cursor;
    }
  }
  return longest;
}

// Of those who read so.
Cursor* ReadPool::least_ahead(Reading reading) const {
  if (!reads_ahead_) return nullptr;
  Cursor* least = nullptr;
  for (const Windows* windows : all_) {
    for (Cursor* cursor : windows->cursors_) {
      if (cursor->reading_ != reading || !cursor->is_awake_) continue;
      // One that reads when there is room gets what it takes from here.
      const int64_t end = reading == Reading::ahead ? windows->count() : cursor->wanted_ + 1;
      if (windows->first_unread(*cursor) >= end) continue;
      if (least == nullptr || cursor->ahead_ - cursor->window_ < least->ahead_ - least->window_) least = cursor;
    }
  }
  return least;
}

// The thread that asks counts as at work.
bool ReadPool::has_thread_for(int64_t windows_ahead) const {
  return at_work_ <= threads_reading_ahead(most_threads_, windows_ahead);
}

ReadPool::Task ReadPool::start(Windows& windows, int64_t number) {
  const int64_t cost = windows.cost_of_next(number);
  const int64_t chunk = windows.start_next(number);
  const int64_t times = windows.order_.mixes_rows() && !windows.has_long_values_ ? 2 : 1;
  return {.windows = &windows,
          .window = number,
          .chunk = chunk,
          .reservation = Ledger::reserve_locked(ledger_, cost),
          .expected = times * windows.cost_of_chunk(chunk)};
}

void ReadPool::make_room(int64_t bytes, Windows::Dropped& dropped) {
  if (ledger_->has_room(bytes) || drop_of_stopped(dropped)) return;
  drop_last_wanted(0, dropped);
}

// All windows that are there only for consumers that have stopped: since they last went on, the others have done so
// twice. False if that makes no room.
bool ReadPool::drop_of_stopped(Windows::Dropped& dropped) {
  uint64_t awake = 0;
  for (const Windows* windows : all_) {
    for (const Cursor* cursor : windows->cursors_) awake += cursor->is_awake_ ? 1 : 0;
  }
  for (Windows* windows : all_) {
    for (Cursor* cursor : windows->cursors_) {
      if (cursor->wanted_ < 0 && clock_ - cursor->moved_ > 2 * awake) cursor->is_awake_ = false;
    }
    windows->drop_of_sleepers(dropped);
  }
  return !dropped.empty();
}

// The window that is furthest before its next consumer, and more than `distance` windows.
void ReadPool::drop_last_wanted(int64_t distance, Windows::Dropped& dropped) {
  Windows* furthest = nullptr;
  std::map<int64_t, Windows::Slot>::iterator last;
  for (Windows* windows : all_) {
    for (auto slot = windows->slots_.begin(); slot != windows->slots_.end(); ++slot) {
      const int64_t before = windows->distance_of(slot->first);
      if (before <= distance || !windows->may_drop(*slot)) continue;
      distance = before;
      furthest = windows;
      last = slot;
    }
  }
  if (furthest != nullptr) furthest->drop(last, dropped);
}

std::shared_ptr<ReadPool> shared_pool(int threads, int64_t budget_bytes) {
  struct Pools {
    std::mutex mutex;
    std::map<std::pair<int, int64_t>, std::weak_ptr<ReadPool>> known;
  };
  static const auto* const kPools = new PerProcess<Pools>();  // never ends: streams may end later than statics
  const std::lock_guard lock((*kPools)->mutex);
  std::weak_ptr<ReadPool>& known = (*kPools)->known[{threads, budget_bytes}];
  std::shared_ptr<ReadPool> pool = known.lock();
  if (pool == nullptr) {
    pool = std::make_shared<ReadPool>(threads, budget_bytes);
    known = pool;
  }
  return pool;
}

}  // namespace paceline::data
