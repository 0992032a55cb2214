#include "paceline/data/executor/windows.h"

#include <arrow/memory_pool.h>
#include <arrow/record_batch.h>
#include <arrow/util/byte_size.h>

#include <algorithm>

#include "paceline/data/executor/gather.h"
#include "paceline/data/executor/read_pool.h"

namespace paceline::data {

Windows::Windows(std::shared_ptr<const Source> source, EpochOrder order, std::shared_ptr<ReadPool> pool)
    : source_(std::move(source)), order_(std::move(order)), pool_(std::move(pool)), ledger_(pool_->ledger()) {
  const std::lock_guard lock(ledger_->mutex());
  pool_->all_.push_back(this);
}

Windows::~Windows() {
  std::unique_lock lock(ledger_->mutex());
  std::erase(pool_->all_, this);
  ledger_->changed().wait(lock, [this] { return at_work_ == 0; });
}

bool Windows::has_unread(int64_t number) const {
  const auto slot = slots_.find(number);
  return slot == slots_.end() || (slot->second.started < window(number).chunks && slot->second.status.ok());
}

int64_t Windows::cost_of_next(int64_t number) const {
  const auto slot = slots_.find(number);
  const int64_t place = window(number).first_chunk + (slot == slots_.end() ? 0 : slot->second.started);
  const int64_t chunk = order_.chunks()[static_cast<size_t>(place)];
  const auto bytes = static_cast<double>(source_->chunks()[static_cast<size_t>(chunk)].bytes);
  return static_cast<int64_t>(bytes * expansion_);
}

// The chunk's place in the order.
int64_t Windows::start_next(int64_t number) {
  Slot& slot = slots_[number];
  if (slot.reading == nullptr) {
    slot.reading = std::make_shared<LoadedWindow>();
    slot.reading->chunks.resize(static_cast<size_t>(window(number).chunks));
    slot.left = window(number).chunks;
  }
  ++slot.at_work;
  ++at_work_;
  return window(number).first_chunk + slot.started++;
}

int64_t Windows::first_unread(Cursor& cursor) const {
  while (cursor.ahead_ < count() && !has_unread(cursor.ahead_)) ++cursor.ahead_;
  return cursor.ahead_;
}

// How many windows its next consumer is before it.
int64_t Windows::distance_of(int64_t number) const {
  int64_t distance = count();
  for (const Cursor* cursor : cursors_) {
    if (cursor->window_ <= number) distance = std::min(distance, number - cursor->window_);
  }
  return distance;
}

// A window that somebody waits for, is reading, or takes rows of makes no room.
bool Windows::may_drop(const std::pair<const int64_t, Slot>& slot) const {
  const auto waits = [&](const Cursor* cursor) { return cursor->wanted_ == slot.first; };
  return slot.second.at_work == 0 && (slot.second.ready == nullptr || slot.second.ready.use_count() == 1) &&
         std::ranges::none_of(cursors_, waits);
}

void Windows::drop(std::map<int64_t, Slot>::iterator slot, Dropped& dropped) {
  for (Cursor* cursor : cursors_) {
    if (cursor->window_ <= slot->first) cursor->ahead_ = std::min(cursor->ahead_, slot->first);
  }
  dropped.push_back(slot->second.ready != nullptr ? std::move(slot->second.ready) : std::move(slot->second.reading));
  slots_.erase(slot);
}

// The windows that no consumer which is awake comes to.
void Windows::drop_of_sleepers(Dropped& dropped) {
  int64_t first = count();
  for (const Cursor* cursor : cursors_) {
    if (cursor->is_awake_) first = std::min(first, cursor->window_);
  }
  for (auto slot = slots_.begin(); slot != slots_.end() && slot->first < first;) {
    const auto here = slot++;
    if (may_drop(*here)) drop(here, dropped);
  }
}

// The windows that all consumers have left.
void Windows::drop_passed(Dropped& dropped) {
  int64_t first = count();
  for (const Cursor* cursor : cursors_) first = std::min(first, cursor->window_);
  for (auto slot = slots_.begin(); slot != slots_.end() && slot->first < first;) {
    const auto here = slot++;
    if (here->second.at_work == 0) drop(here, dropped);
  }
}

void Windows::read(int64_t number, int64_t chunk, Ledger::Reservation reservation) {
  const int64_t of_source = order_.chunks()[static_cast<size_t>(chunk)];
  auto batch = source_->read(of_source, order_.key());
  const ChunkSize& listed = source_->chunks()[static_cast<size_t>(of_source)];
  int64_t bytes = listed.bytes;
  if (batch.ok()) {
    bytes = arrow::util::ReferencedBufferSize(**batch).ValueOr(bytes);
    if (source_->counts_rows() && (*batch)->num_rows() != listed.rows) {
      batch = arrow::Status::Invalid("chunk ", of_source, " has ", (*batch)->num_rows(),
                                     " rows; its source has listed ", listed.rows);
    }
  }
  reservation.resize(batch.ok() ? bytes : 0);

  std::unique_lock lock(ledger_->mutex());
  if (listed.bytes > 0) {
    expansion_ = std::max(expansion_, static_cast<double>(bytes) / static_cast<double>(listed.bytes));
  }
  Slot& slot = slots_.at(number);
  if (batch.ok()) {
    slot.reading->chunks[static_cast<size_t>(chunk - window(number).first_chunk)] = std::move(*batch);
    slot.reading->reservations.push_back(std::move(reservation));
  } else if (slot.status.ok()) {
    slot.status = batch.status();
  }
  if (--slot.left == 0 && slot.status.ok()) {
    lock.unlock();
    arrow::Status status = complete(number, *slot.reading);
    lock.lock();
    slot.status = std::move(status);
    if (slot.status.ok()) slot.ready = std::move(slot.reading);
  }
  Dropped dropped;
  --slot.at_work;
  --at_work_;
  drop_passed(dropped);
  ledger_->changed().notify_all();
  lock.unlock();
}

// Mixes the window, of which each chunk is there: no other thread has it.
arrow::Status Windows::complete(int64_t number, LoadedWindow& loaded) const {
  for (const auto& chunk : loaded.chunks) {
    loaded.counts.push_back(chunk->num_rows());
    loaded.rows += chunk->num_rows();
  }
  const std::vector<int64_t> mixed = order_.mixed(window(number), loaded.counts);
  if (mixed.empty()) return arrow::Status::OK();
  ARROW_ASSIGN_OR_RAISE(auto whole, take_all(loaded.chunks, mixed, arrow::default_memory_pool()));
  loaded.chunks = {std::move(whole)};
  loaded.counts = {loaded.rows};
  return arrow::Status::OK();
}

Cursor::Cursor(std::shared_ptr<Windows> windows, int64_t window, bool reads_ahead)
    : windows_(std::move(windows)), reads_ahead_(reads_ahead), window_(window), ahead_(window) {
  const std::lock_guard lock(windows_->ledger_->mutex());
  moved_ = ++windows_->pool_->clock_;
  windows_->cursors_.push_back(this);
}

Cursor::~Cursor() {
  Windows::Dropped dropped;  // ends last, without the lock
  const std::lock_guard lock(windows_->ledger_->mutex());
  std::erase(windows_->cursors_, this);
  windows_->drop_passed(dropped);
}

arrow::Result<std::shared_ptr<const LoadedWindow>> Cursor::take(int64_t number) {
  ReadPool& pool = *windows_->pool_;
  std::unique_lock lock(windows_->ledger_->mutex());
  const auto state = [&]() -> const Windows::Slot* {
    const auto slot = windows_->slots_.find(number);
    const bool is_decided =
        slot != windows_->slots_.end() && (slot->second.ready != nullptr || !slot->second.status.ok());
    return is_decided ? &slot->second : nullptr;
  };
  if (!is_awake_ || state() == nullptr) {
    is_awake_ = true;
    wanted_ = number;
    waits_since_ = ++pool.waits_;
    moved_ = pool.clock_;
    windows_->ledger_->changed().notify_all();
    while (state() == nullptr) {
      if (!pool.threads_.empty() || !pool.work_once(lock, this)) windows_->ledger_->changed().wait(lock);
    }
    wanted_ = -1;
  }
  const Windows::Slot* slot = state();
  if (!slot->status.ok()) return slot->status;
  return slot->ready;
}

void Cursor::move_to(int64_t number) {
  if (number == window_) return;
  Windows::Dropped dropped;
  {
    const std::lock_guard lock(windows_->ledger_->mutex());
    ahead_ = number < window_ ? number : std::max(ahead_, number);
    window_ = number;
    moved_ = ++windows_->pool_->clock_;
    windows_->drop_passed(dropped);
  }
  dropped.clear();
  windows_->ledger_->changed().notify_all();
}

}  // namespace paceline::data
