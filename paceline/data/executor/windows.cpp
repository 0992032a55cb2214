#include "paceline/data/executor/windows.h"

#include <arrow/buffer.h>
#include <arrow/memory_pool.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/byte_size.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <limits>
#include <new>
#include <span>

#include "paceline/data/executor/read_pool.h"
#include "paceline/data/memory/counted_batch.h"
#include "paceline/data/memory/decoding.h"
#include "paceline/data/memory/reading_memory.h"
#include "paceline/data/rows/gather.h"
#include "paceline/data/rows/row_copies.h"

namespace paceline::data {
namespace {

// Mixing chunks costs a pass over them. Where the values of a row are this long, batches are as soon put together of
// the chunks as they are.
constexpr int64_t kBytesOfLongValue = 64;
// Smaller ones are dealt together, once the window is there.
constexpr int64_t kRowsToDeal = 4096;

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

// An exception of Arrow's, or for lack of memory, is the chunk's error: those who wait for it are to hear of it.
arrow::Result<std::shared_ptr<arrow::RecordBatch>> read_of(const Source& source, int64_t chunk, uint64_t key) {
  try {
    return source.read(chunk, key);
  } catch (const std::bad_alloc&) {
    return arrow::Status::OutOfMemory("no memory for chunk ", chunk);
  } catch (const std::exception& error) {
    return arrow::Status::UnknownError("reading chunk ", chunk, ": ", error.what());
  }
}

}  // namespace

// Memory that batches still hold stays reserved.
LoadedWindow::~LoadedWindow() {
  const std::vector<std::weak_ptr<Ledger::Reservation>> held(reservations.begin(), reservations.end());
  reservations.clear();
  chunks.clear();
  bins.reset();
  for (const auto& reservation : held) {
    if (const auto still_there = reservation.lock()) still_there->leave_to_batches();
  }
}

std::vector<RowRun> LoadedWindow::runs(int64_t first, int64_t count) const {
  return runs_of(counts, order, first, count);
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

bool Windows::has_failed() const {
  const std::lock_guard lock(ledger_->mutex());
  return std::ranges::any_of(slots_, [](const auto& slot) { return !slot.second.status.ok(); });
}

bool Windows::has_unread(int64_t number) const {
  const auto slot = slots_.find(number);
  return slot == slots_.end() ||
         (slot->second.status.ok() && slot->second.ready == nullptr && slot->second.started < window(number).chunks);
}

int64_t Windows::cost_of_chunk(int64_t place) const {
  const int64_t chunk = order_.chunks()[static_cast<size_t>(place)];
  const auto bytes = static_cast<double>(source_->chunks()[static_cast<size_t>(chunk)].bytes);
  return static_cast<int64_t>(bytes * expansion_);
}

// Of the window's next chunk, while it is read: one to be mixed is then there twice.
int64_t Windows::cost_of_next(int64_t number) const {
  const auto slot = slots_.find(number);
  const int64_t place = window(number).first_chunk + (slot == slots_.end() ? 0 : slot->second.started);
  const int64_t chunk = order_.chunks()[static_cast<size_t>(place)];
  return cost_of_chunk(place) * (order_.mixes_rows() && !has_long_values_ ? 2 : 1) +
         source_->chunks()[static_cast<size_t>(chunk)].bytes_to_read;
}

// Of what nobody has begun to read of these windows: the first and those behind it, none of which is begun; with the
// room beside it while a chunk is mixed.
int64_t Windows::cost_of_unread(int64_t first, int64_t end) {
  if (first >= end) return 0;
  if (bytes_until_.empty()) {
    bytes_until_.push_back(0);
    for (const int64_t chunk : order_.chunks()) {
      bytes_until_.push_back(bytes_until_.back() + source_->chunks()[static_cast<size_t>(chunk)].bytes);
    }
  }
  const auto slot = slots_.find(first);
  const int64_t begin = window(first).first_chunk + (slot == slots_.end() ? 0 : slot->second.started);
  const Window& last = window(end - 1);
  const int64_t bytes =
      bytes_until_[static_cast<size_t>(last.first_chunk + last.chunks)] - bytes_until_[static_cast<size_t>(begin)];
  return static_cast<int64_t>(static_cast<double>(bytes) * expansion_) + cost_of_next(first) -
         cost_of_chunk(window(first).first_chunk);
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
    slot.dealt.resize(static_cast<size_t>(window(number).chunks));
  }
  ++slot.at_work;
  ++at_work_;
  return window(number).first_chunk + slot.started++;
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
  dropped.insert(dropped.end(), {std::move(gone.ready), std::move(gone.reading)});
  if (!gone.status.ok()) dropped.push_back(std::make_shared<arrow::Status>(std::move(gone.status)));
  for (auto& part : gone.dealt) {
    if (part) dropped.push_back(std::move(part->batch));
  }
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
    if (here->second.at_work == 0) drop(here, dropped);
  }
}

void Windows::read(int64_t number, int64_t chunk, Ledger::Reservation reservation, int64_t expected) {
  const int64_t of_source = order_.chunks()[static_cast<size_t>(chunk)];
  const ChunkSize& listed = source_->chunks()[static_cast<size_t>(of_source)];
  std::optional<Decoding> decoding(std::in_place, ledger_, expected);
  ledger_->trim_spare();
  auto batch = read_of(*source_, of_source, order_.key());
  int64_t bytes = listed.bytes;
  if (batch.ok()) {
    bytes = arrow::util::ReferencedBufferSize(**batch).ValueOr(bytes);
    if (source_->counts_rows() && (*batch)->num_rows() != listed.rows) {
      batch = arrow::Status::Invalid("chunk ", of_source, " has ", (*batch)->num_rows(),
                                     " rows; its source has listed ", listed.rows);
    }
  }
  std::optional<DealtRows> in_bins;
  if (batch.ok() && can_deal(**batch)) {
    auto rows = dealt(number, chunk - window(number).first_chunk, *std::move(batch));
    if (rows.ok()) {
      batch = rows->batch;
      in_bins = *std::move(rows);
    } else {
      batch = rows.status();
    }
  }
  if (batch.ok()) bytes = std::max(bytes, decoding->allocated());
  reservation.resize(batch.ok() ? bytes : 0);
  decoding.reset();  // which trims what is kept to the room there is now
  auto held = shared_reservation(std::move(reservation));
  if (batch.ok()) batch = counted_batch(**batch, held);
  if (in_bins) in_bins->batch = *batch;

  std::unique_lock lock(ledger_->mutex());
  if (listed.bytes > 0) {
    expansion_ = std::max(expansion_, static_cast<double>(bytes) / static_cast<double>(listed.bytes));
  }
  Slot& slot = slots_.at(number);
  Dropped dropped;
  if (batch.ok()) {
    has_long_values_ = has_long_values(*(*batch)->schema());
    const auto place = static_cast<size_t>(chunk - window(number).first_chunk);
    slot.reading->chunks[place] = std::move(*batch);
    slot.reading->reservations[place] = std::move(held);
    slot.dealt[place] = std::move(in_bins);
  } else if (slot.status.ok()) {
    slot.status = batch.status();
  }
  if (--slot.left == 0 && slot.status.ok()) {
    lock.unlock();
    arrow::Status status = put_in_order(number, *slot.reading, std::move(slot.dealt));
    lock.lock();
    slot.dealt.clear();
    slot.status = std::move(status);
    if (slot.status.ok()) slot.ready = std::move(slot.reading);
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

// Whether its rows can be dealt without the window's other chunks.
bool Windows::can_deal(const arrow::RecordBatch& chunk) const {
  return order_.mixes_rows() && source_->counts_rows() && chunk.num_rows() >= kRowsToDeal &&
         !has_long_values(*chunk.schema());
}

// `chunk`: its place in the window, of which the rows are as many as are listed.
arrow::Result<DealtRows> Windows::dealt(int64_t number, int64_t chunk, std::shared_ptr<arrow::RecordBatch> rows) const {
  const WindowMix mix = order_.mix_of(window(number), window(number).rows);
  const int64_t count = rows->num_rows();
  ARROW_ASSIGN_OR_RAISE(const auto memory,
                        arrow::AllocateBuffer(count * static_cast<int64_t>(sizeof(uint16_t)), reading_memory()));
  const std::span bins(reinterpret_cast<uint16_t*>(memory->mutable_data()), static_cast<size_t>(count));
  mix.find_bins(chunk, bins);
  return deal(std::move(rows), bins, mix.bins(), reading_memory());
}

// The order of a window of which each chunk is there: no other thread has it.
arrow::Status Windows::put_in_order(int64_t number, LoadedWindow& loaded,
                                    std::vector<std::optional<DealtRows>> dealt) const {
  for (const auto& chunk : loaded.chunks) {
    loaded.counts.push_back(chunk->num_rows());
    loaded.rows += chunk->num_rows();
  }
  if (!order_.mixes_rows() || loaded.rows == 0) return arrow::Status::OK();
  if (loaded.rows > WindowMix::kMostRows) {
    return arrow::Status::Invalid("a window of ", loaded.rows, " rows cannot be mixed; ", WindowMix::kMostRows,
                                  " are possible");
  }
  const bool some_are_dealt = std::ranges::any_of(dealt, [](const auto& rows) { return rows.has_value(); });
  if (some_are_dealt || !has_long_values(*loaded.chunks.front()->schema())) {
    return put_into_bins(number, loaded, std::move(dealt));
  }
  loaded.reservations.push_back(
      shared_reservation(Ledger::reserve(ledger_, loaded.rows * static_cast<int64_t>(sizeof(uint32_t)))));
  loaded.order = order_.mixed(window(number), loaded.counts);
  return arrow::Status::OK();
}

// Deals what is not dealt yet: chunks without many rows together, so that a bin has few parts.
arrow::Status Windows::put_into_bins(int64_t number, LoadedWindow& loaded,
                                     std::vector<std::optional<DealtRows>> dealt) const {
  const WindowMix mix = order_.mix_of(window(number), loaded.rows);
  std::vector<DealtRows> parts;
  std::vector<std::shared_ptr<arrow::RecordBatch>> together;
  std::vector<RowRun> runs;
  std::vector<uint16_t> bins;
  const auto deal_together = [&]() -> arrow::Status {
    if (bins.empty()) return arrow::Status::OK();
    ARROW_ASSIGN_OR_RAISE(auto rows, gather(together, runs, reading_memory()));
    together.clear();
    ARROW_ASSIGN_OR_RAISE(DealtRows part, deal(std::move(rows), bins, mix.bins(), reading_memory()));
    parts.push_back(std::move(part));
    runs.clear();
    bins.clear();
    return arrow::Status::OK();
  };
  for (size_t chunk = 0; chunk < loaded.chunks.size(); ++chunk) {
    const std::shared_ptr<arrow::RecordBatch> rows = std::move(loaded.chunks[chunk]);
    if (dealt[chunk]) {
      ARROW_RETURN_NOT_OK(deal_together());
      parts.push_back(*std::move(dealt[chunk]));
      continue;
    }
    const size_t before = bins.size();
    bins.resize(before + static_cast<size_t>(rows->num_rows()));
    mix.find_bins(static_cast<int64_t>(chunk), std::span(bins).subspan(before));
    runs.push_back({std::ssize(together), 0, rows->num_rows()});
    together.push_back(rows);
    if (std::ssize(bins) >= kRowsToDeal) ARROW_RETURN_NOT_OK(deal_together());
  }
  ARROW_RETURN_NOT_OK(deal_together());
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches;
  for (const DealtRows& part : parts) batches.push_back(part.batch);
  ARROW_ASSIGN_OR_RAISE(batches, alike(batches, reading_memory()));
  for (size_t part = 0; part < parts.size(); ++part) parts[part].batch = batches[part];
  loaded.chunks.clear();
  int64_t bytes = 0;
  for (const auto& reservation : loaded.reservations) bytes += reservation->bytes();
  loaded.bins = std::make_unique<MixedBins>(mix, std::move(parts), bytes, ledger_, reading_memory());
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

// The window that is there, or its error; with the ledger's mutex held.
const Windows::Slot* Cursor::decided(int64_t number) const {
  const auto slot = windows_->slots_.find(number);
  const bool is_decided =
      slot != windows_->slots_.end() && (slot->second.ready != nullptr || !slot->second.status.ok());
  return is_decided ? &slot->second : nullptr;
}

bool Cursor::is_there(int64_t number) const {
  const std::lock_guard lock(windows_->ledger_->mutex());
  return decided(number) != nullptr;
}

arrow::Result<std::shared_ptr<const LoadedWindow>> Cursor::take(int64_t number) {
  ReadPool& pool = *windows_->pool_;
  std::unique_lock lock(windows_->ledger_->mutex());
  if (!is_awake_ || decided(number) == nullptr) {
    is_awake_ = true;
    wanted_ = number;
    waits_since_ = ++pool.waits_;
    moved_ = pool.clock_;
    windows_->ledger_->changed().notify_all();
    const auto since = std::chrono::steady_clock::now();
    const bool reads_itself = !pool.reads_ahead_ || ReadPool::is_in_reading();
    while (decided(number) == nullptr) {
      if (!reads_itself || !pool.work_once(lock, this)) windows_->ledger_->changed().wait(lock);
    }
    const bool is_early = reading_ == Reading::when_there_is_room;
    if (pool.reads_ahead_ && !is_early)
      windows_->statistics_->waited_ns += (std::chrono::steady_clock::now() - since).count();
    wanted_ = -1;
  }
  ++windows_->statistics_->windows_taken;
  const Windows::Slot* slot = decided(number);
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
  constexpr int64_t kWindowsOfThread = 2;  // so that there is time to begin the next epoch, on busy cores, too
  const std::lock_guard lock(windows_->ledger_->mutex());
  return windows_->count() - windows_->first_unread(*this) <= kWindowsOfThread * windows_->pool_->most_threads_;
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
