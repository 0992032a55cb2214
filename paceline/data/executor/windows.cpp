#include "paceline/data/executor/windows.h"

#include <arrow/memory_pool.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/byte_size.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "paceline/data/executor/counted_batch.h"
#include "paceline/data/executor/read_pool.h"
#include "paceline/data/executor/reading_memory.h"
#include "paceline/data/executor/row_copies.h"

namespace paceline::data {
namespace {

// Mixing a window costs memory and a pass over it. Where the values of a row are this long, batches are as soon put
// together of the chunks.
constexpr int64_t kBytesOfLongValue = 64;

std::shared_ptr<Ledger::Reservation> shared_reservation(Ledger::Reservation reservation) {
  return std::make_shared<Ledger::Reservation>(std::move(reservation));
}

bool has_long_values(const arrow::Schema& schema) {
  int64_t bytes = 0;
  for (const auto& field : schema.fields()) {
    const Leaf leaf = leaf_of(field->type());
    if (leaf.type == nullptr) return false;
    bytes += leaf.bytes_of_row;
  }
  return bytes >= kBytesOfLongValue * schema.num_fields();
}

}  // namespace

// Memory that batches still hold stays reserved.
LoadedWindow::~LoadedWindow() {
  const std::vector<std::weak_ptr<Ledger::Reservation>> held(reservations.begin(), reservations.end());
  reservations.clear();
  chunks.clear();
  for (const auto& reservation : held) {
    if (const auto still_there = reservation.lock()) still_there->leave_to_batches();
  }
}

std::vector<RowRun> LoadedWindow::runs(int64_t first, int64_t count) const {
  if (order.empty()) return runs_of(counts, {}, first, count);
  const std::vector<int64_t> part(order.begin() + first, order.begin() + first + count);
  return runs_of(counts, part, 0, count);
}

Windows::Windows(std::shared_ptr<const Source> source, EpochOrder order, std::shared_ptr<ReadPool> pool,
                 std::shared_ptr<ReadAheadStatistics> statistics)
    : source_(std::move(source)),
      order_(std::move(order)),
      pool_(std::move(pool)),
      ledger_(pool_->ledger()),
      statistics_(std::move(statistics)) {
  const std::lock_guard lock(ledger_->mutex());
  pool_->all_.push_back(this);
}

Windows::~Windows() {
  std::unique_lock lock(ledger_->mutex());
  std::erase(pool_->all_, this);
  ledger_->changed().wait(lock, [this] { return at_work_ == 0; });
}

std::pair<int64_t, int64_t> Windows::in_memory() const {
  int64_t chunks = 0;
  int64_t bytes = 0;
  const std::lock_guard lock(ledger_->mutex());
  for (const auto& [number, slot] : slots_) {
    if (slot.ready == nullptr) continue;
    chunks += window(number).chunks;
    for (const auto& reservation : slot.ready->reservations) bytes += reservation->bytes();
  }
  return {chunks, bytes};
}

bool Windows::has_unread(int64_t number) const {
  const auto slot = slots_.find(number);
  return slot == slots_.end() || (slot->second.mixing == nullptr && slot->second.status.ok() &&
                                  slot->second.ready == nullptr && slot->second.started < window(number).chunks);
}

int64_t Windows::cost_of_chunk(int64_t place) const {
  const int64_t chunk = order_.chunks()[static_cast<size_t>(place)];
  const auto bytes = static_cast<double>(source_->chunks()[static_cast<size_t>(chunk)].bytes);
  return static_cast<int64_t>(bytes * expansion_);
}

// What a window is mixed into is reserved with its first chunk.
int64_t Windows::cost_of_mixed(int64_t number) const {
  if (!order_.mixes_rows() || has_long_values_) return 0;
  int64_t cost = 0;
  const Window& all = window(number);
  for (int64_t place = all.first_chunk; place < all.first_chunk + all.chunks; ++place) cost += cost_of_chunk(place);
  return cost;
}

// Of the window's next chunk.
int64_t Windows::cost_of_reading(int64_t number) const {
  const auto slot = slots_.find(number);
  const int64_t place = window(number).first_chunk + (slot == slots_.end() ? 0 : slot->second.started);
  const int64_t chunk = order_.chunks()[static_cast<size_t>(place)];
  return cost_of_chunk(place) + source_->chunks()[static_cast<size_t>(chunk)].bytes_to_read;
}

int64_t Windows::cost_of_next(int64_t number) const {
  return cost_of_reading(number) + (slots_.contains(number) ? 0 : cost_of_mixed(number));
}

// The chunk's place in the order.
int64_t Windows::start_next(int64_t number) {
  Slot& slot = slots_[number];
  if (slot.reading == nullptr) {
    slot.reading = std::make_shared<LoadedWindow>();
    slot.reading->chunks.resize(static_cast<size_t>(window(number).chunks));
    slot.reading->reservations.resize(static_cast<size_t>(window(number).chunks));
    slot.left = window(number).chunks;
    ++statistics_->windows_read;
    if (const int64_t bytes = cost_of_mixed(number); bytes > 0) {
      slot.mixed = std::make_shared<LoadedWindow>();
      slot.mixed->reservations.push_back(shared_reservation(Ledger::reserve_locked(ledger_, bytes)));
      slot.mixed->expectations.emplace_back(pool_->buffers(), bytes);
    }
  }
  ++slot.at_work;
  ++at_work_;
  return window(number).first_chunk + slot.started++;
}

int64_t Windows::start_mixing(int64_t number) {
  Slot& slot = slots_.at(number);
  ++slot.at_work;
  ++at_work_;
  if (slot.started + 1 == slot.mixing->pieces()) std::erase(to_mix_, number);
  return slot.started++;
}

bool Windows::is_waited_for(int64_t number) const {
  return std::ranges::any_of(cursors_, [&](const Cursor* cursor) {
    return cursor->wanted_ == number && cursor->reading_ != Reading::when_there_is_room;
  });
}

int64_t Windows::first_unread(Cursor& cursor) const {
  while (cursor.ahead_ < count() && !has_unread(cursor.ahead_)) ++cursor.ahead_;
  return cursor.ahead_;
}

// How many windows its next consumer is before it, or kLater.
int64_t Windows::distance_of(int64_t number) const {
  int64_t distance = kLater;
  for (const Cursor* cursor : cursors_) {
    if (cursor->reading_ == Reading::when_there_is_room) continue;
    if (cursor->window_ <= number) distance = std::min(distance, number - cursor->window_);
  }
  return distance;
}

// A window that somebody waits for, is reading, or takes rows of makes no room.
bool Windows::may_drop(const std::pair<const int64_t, Slot>& slot) const {
  return slot.second.at_work == 0 && (slot.second.ready == nullptr || slot.second.ready.use_count() == 1) &&
         !is_waited_for(slot.first);
}

void Windows::drop(std::map<int64_t, Slot>::iterator slot, Dropped& dropped) {
  for (Cursor* cursor : cursors_) {
    if (cursor->window_ <= slot->first) cursor->ahead_ = std::min(cursor->ahead_, slot->first);
  }
  Slot& gone = slot->second;
  dropped.insert(dropped.end(),
                 {std::move(gone.ready), std::move(gone.reading), std::move(gone.mixing), std::move(gone.mixed)});
  std::erase(to_mix_, slot->first);
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
  expects_more_ = false;  // who comes now has to begin with what is gone
}

void Windows::expect_more(bool more) {
  Dropped dropped;  // ends last, without the lock
  const std::lock_guard lock(ledger_->mutex());
  expects_more_ = more;
  drop_passed(dropped);
}

// The windows that all consumers have left, unless others are to come.
void Windows::drop_passed(Dropped& dropped) {
  if (expects_more_) return;
  int64_t first = count();
  for (const Cursor* cursor : cursors_) first = std::min(first, cursor->window_);
  for (auto slot = slots_.begin(); slot != slots_.end() && slot->first < first;) {
    const auto here = slot++;
    std::erase(to_mix_, here->first);
    if (here->second.at_work == 0) drop(here, dropped);
  }
}

void Windows::read(int64_t number, int64_t chunk, Ledger::Reservation reservation) {
  const int64_t of_source = order_.chunks()[static_cast<size_t>(chunk)];
  const auto batch_of_source = [&] {
    const DecodesInto buffers(pool_->buffers(), large_bytes_);
    ledger_->trim_spare();
    return source_->read(of_source, order_.key());
  };
  auto batch = batch_of_source();
  const ChunkSize& listed = source_->chunks()[static_cast<size_t>(of_source)];
  int64_t bytes = listed.bytes;
  std::shared_ptr<arrow::Schema> schema;
  if (batch.ok()) {
    schema = (*batch)->schema();
    bytes = arrow::util::ReferencedBufferSize(**batch).ValueOr(bytes);
    if (source_->counts_rows() && (*batch)->num_rows() != listed.rows) {
      batch = arrow::Status::Invalid("chunk ", of_source, " has ", (*batch)->num_rows(),
                                     " rows; its source has listed ", listed.rows);
    }
  }
  reservation.resize(batch.ok() ? bytes : 0);
  auto held = shared_reservation(std::move(reservation));
  if (batch.ok()) {
    large_bytes_ = LargeBuffers::bytes_of(**batch);
    batch = counted_batch(**batch, held);
  }

  std::unique_lock lock(ledger_->mutex());
  if (listed.bytes > 0) {
    expansion_ = std::max(expansion_, static_cast<double>(bytes) / static_cast<double>(listed.bytes));
  }
  Slot& slot = slots_.at(number);
  Dropped dropped;
  if (batch.ok()) {
    const auto place = static_cast<size_t>(chunk - window(number).first_chunk);
    slot.reading->chunks[place] = std::move(*batch);
    slot.reading->reservations[place] = std::move(held);
    has_long_values_ = has_long_values(*schema);
  } else if (slot.status.ok()) {
    slot.status = batch.status();
  }
  if (--slot.left == 0 && slot.status.ok()) {
    std::shared_ptr<LoadedWindow> mixed = std::move(slot.mixed);
    std::shared_ptr<Mixing> mixing;
    lock.unlock();
    arrow::Status status = put_in_order(number, *slot.reading, mixed, mixing);
    lock.lock();
    slot.status = std::move(status);
    slot.mixed = std::move(mixed);
    slot.mixing = std::move(mixing);
    if (slot.mixing != nullptr) {  // drop_passed() sees to it if nobody wants it any more
      slot.started = 0;
      slot.left = slot.mixing->pieces();
      to_mix_.push_back(number);
    }
    // Who begins with this window gets rows of it before they are mixed, one by one out of the chunks.
    const auto begins = [&](const Cursor* cursor) { return cursor->wanted_ == number && cursor->is_first_; };
    const bool has_beginner = std::ranges::any_of(cursors_, begins) && pool_->reads_ahead_;
    if (slot.status.ok() && (slot.mixing == nullptr || has_beginner)) {
      slot.ready = std::move(slot.reading);
    } else if (slot.mixing != nullptr) {
      // What is mixed goes, column by column.
      for (auto& part : slot.reading->chunks) dropped.push_back(std::move(part));
      slot.reading->chunks.clear();
    }
  }
  finish(slot, lock, dropped);
}

void Windows::mix(int64_t number, int64_t piece) {
  std::unique_lock lock(ledger_->mutex());
  Slot& slot = slots_.at(number);
  const std::shared_ptr<Mixing> mixing = slot.mixing;
  lock.unlock();
  arrow::Status status = mixing->run(piece);
  lock.lock();
  if (!status.ok() && slot.status.ok()) slot.status = std::move(status);
  Dropped dropped;
  if (--slot.left == 0 && slot.status.ok()) {
    slot.mixed->chunks = {counted_batch(*mixing->finish(), slot.mixed->reservations.front())};
    slot.mixed->rows = slot.mixed->chunks.front()->num_rows();
    slot.mixed->counts = {slot.mixed->rows};
    dropped.insert(dropped.end(), {std::move(slot.ready), std::move(slot.reading), std::move(slot.mixing)});
    slot.ready = std::move(slot.mixed);
  }
  finish(slot, lock, dropped);
}

// What is to be done when a thread is through with a task. The lock is free afterwards.
void Windows::finish(Slot& slot, std::unique_lock<std::mutex>& lock, Dropped& dropped) {
  --slot.at_work;
  drop_passed(dropped);
  ledger_->changed().notify_all();
  lock.unlock();
  dropped.clear();
  lock.lock();
  if (--at_work_ == 0) ledger_->changed().notify_all();  // the destructor may wait for it
  lock.unlock();
}

// The order of a window of which each chunk is there, and how its rows get into it, if they are to be mixed: no other
// thread has it.
arrow::Status Windows::put_in_order(int64_t number, LoadedWindow& loaded, std::shared_ptr<LoadedWindow>& mixed,
                                    std::shared_ptr<Mixing>& mixing) const {
  int64_t bytes = 0;
  for (size_t i = 0; i < loaded.chunks.size(); ++i) {
    loaded.counts.push_back(loaded.chunks[i]->num_rows());
    loaded.rows += loaded.chunks[i]->num_rows();
    bytes += loaded.reservations[i]->bytes();
  }
  if (loaded.rows > std::numeric_limits<uint32_t>::max()) {
    return arrow::Status::Invalid("a window of ", loaded.rows, " rows cannot be mixed; 2^32 - 1 are possible");
  }
  const std::vector<int64_t> order = order_.mixed(window(number), loaded.counts);
  loaded.order.assign(order.begin(), order.end());
  if (order.empty()) return arrow::Status::OK();
  loaded.reservations.push_back(
      shared_reservation(Ledger::reserve(ledger_, loaded.rows * static_cast<int64_t>(sizeof(uint32_t)))));
  if (has_long_values(*loaded.chunks.front()->schema())) {
    mixed.reset();
    return arrow::Status::OK();
  }
  loaded.reservations.back()->resize(loaded.reservations.back()->bytes() + loaded.rows * Mixing::kBytesOfRow);
  if (mixed == nullptr) mixed = std::make_shared<LoadedWindow>();
  if (mixed->reservations.empty()) mixed->reservations.push_back(shared_reservation(Ledger::reserve(ledger_, 0)));
  mixed->reservations.front()->resize(bytes);
  ARROW_ASSIGN_OR_RAISE(mixing, Mixing::make(loaded.chunks, loaded.order, pool_->buffers(), reading_memory()));
  mixed->expectations.clear();
  return arrow::Status::OK();
}

Cursor::Cursor(std::shared_ptr<Windows> windows, int64_t window, Reading reading)
    : windows_(std::move(windows)), reading_(reading), window_(window), ahead_(window) {
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
    const auto since = std::chrono::steady_clock::now();
    while (state() == nullptr) {
      if (pool.reads_ahead_ || !pool.work_once(lock, this)) windows_->ledger_->changed().wait(lock);
    }
    const bool is_early = reading_ == Reading::when_there_is_room;
    if (pool.reads_ahead_ && !is_early)
      windows_->statistics_->waited_ns += (std::chrono::steady_clock::now() - since).count();
    wanted_ = -1;
  }
  is_first_ = false;
  ++windows_->statistics_->windows_taken;
  const Windows::Slot* slot = state();
  if (!slot->status.ok()) return slot->status;
  return slot->ready;
}

void Cursor::set_reading(Reading reading) {
  {
    const std::lock_guard lock(windows_->ledger_->mutex());
    reading_ = reading;
  }
  windows_->ledger_->changed().notify_all();
}

bool Cursor::is_near_end() {
  const std::lock_guard lock(windows_->ledger_->mutex());
  return windows_->first_unread(*this) == windows_->count();
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
