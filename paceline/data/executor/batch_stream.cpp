#include "paceline/data/executor/batch_stream.h"

#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/memory_pool.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/byte_size.h>

#include <algorithm>

#include "paceline/core/posix/priority.h"
#include "paceline/core/posix/thread.h"
#include "paceline/data/executor/read_pool.h"
#include "paceline/data/memory/counted_batch.h"
#include "paceline/data/memory/reading_memory.h"
#include "paceline/data/rows/gather.h"

namespace paceline::data {
namespace {

// Of what is read ahead, the part that batches may have which are prepared beyond those to prefetch: no more, since
// ranks that part company read windows for themselves.
constexpr int64_t kPartAhead = 64;
constexpr int64_t kMostBytesAhead = int64_t{1} << 20;
constexpr int64_t kMostBatchesAhead = 16;
// Rows may have texts of any length: their bytes are looked at again after so many batches.
constexpr int64_t kBatchesOfOneSize = 16;

arrow::Result<std::shared_ptr<arrow::RecordBatch>> with_padding_column(const arrow::RecordBatch& batch, int64_t real) {
  arrow::BooleanBuilder builder;
  for (int64_t row = 0; row < batch.num_rows(); ++row) ARROW_RETURN_NOT_OK(builder.Append(row >= real));
  ARROW_ASSIGN_OR_RAISE(const std::shared_ptr<arrow::Array> column, builder.Finish());
  return batch.AddColumn(batch.num_columns(), kPaddingColumn, column);
}

}  // namespace

BatchStream::BatchStream(std::shared_ptr<const Source> source, const EpochOrder& order, const StreamOptions& stream,
                         const BatchStreamOptions& options, const StreamState& from)
    : BatchStream(own_windows(std::move(source), order, stream), options, from) {}

BatchStream::BatchStream(std::shared_ptr<Windows> windows, const BatchStreamOptions& options, const StreamState& from)
    : options_(options),
      rows_(std::move(windows), options.local_shuffle_key, from,
            options.begins_early ? Reading::when_there_is_room : Reading::ahead),
      bytes_ahead_(std::min(kMostBytesAhead, rows_.windows()->pool().ledger()->budget() / kPartAhead)),
      state_(from),
      is_early_(options.begins_early) {
  if (options_.prefetch_batches > 0) thread_ = start_thread([this] { make_ahead(); });
}

BatchStream::~BatchStream() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  if (options_.begins_early) read();  // so that the thread does not wait for room
  if (thread_.joinable()) thread_.join();
}

void BatchStream::read() {
  rows_.set_reading(Reading::ahead);
  {
    const std::lock_guard lock(mutex_);
    is_early_ = false;
  }
  changed_.notify_all();
}

// For a batch of so many bytes, if those that are ready were `times` as many.
bool BatchStream::has_room(int64_t bytes, int64_t times) const {
  const int64_t ready = std::ssize(ready_);
  if (ready < options_.prefetch_batches) return true;
  return !is_early_ && times * ready_bytes_ + bytes <= bytes_ahead_ && times * ready < kMostBatchesAhead;
}

void BatchStream::make_ahead() {
  never_preempt();
  while (true) {
    Made made = make();
    const bool is_last = !made.batch.ok() || *made.batch == nullptr;
    std::unique_lock lock(mutex_);
    if (!has_room(made.bytes, 1)) changed_.wait(lock, [&] { return stopped_ || has_room(made.bytes, 2); });
    if (stopped_) return;
    ready_bytes_ += made.bytes;
    ready_.push_back(std::move(made));
    lock.unlock();
    changed_.notify_all();
    if (is_last) return;
  }
}

bool BatchStream::is_ready() const {
  const std::lock_guard lock(mutex_);
  return !ready_.empty();
}

bool BatchStream::wait(std::chrono::milliseconds timeout) const {
  std::unique_lock lock(mutex_);
  return !thread_.joinable() || changed_.wait_for(lock, timeout, [&] { return !ready_.empty(); });
}

BatchStream::Batch BatchStream::next() {
  std::unique_lock lock(mutex_);
  if (thread_.joinable()) {
    changed_.wait(lock, [&] { return !ready_.empty(); });
  } else if (ready_.empty()) {
    ready_.push_back(make());
  }
  if (!ready_.front().batch.ok() || *ready_.front().batch == nullptr) {
    state_ = ready_.front().after;
    return ready_.front().batch;  // stays there
  }
  Made made = std::move(ready_.front());
  ready_.pop_front();
  ready_bytes_ -= made.bytes;
  state_ = made.after;
  is_near_end_ = made.is_near_end;
  const bool is_room = has_room(made.bytes, 2);
  lock.unlock();
  if (is_room) changed_.notify_all();
  return std::move(made.batch);
}

BatchStream::Made BatchStream::make() {
  Made made;
  made.batch = make_batch();
  if (made.batch.ok() && *made.batch != nullptr) count(**made.batch);
  made.after = rows_.state();
  made.is_near_end = rows_.is_near_end();
  if (made.batch.ok() && *made.batch != nullptr && (*made.batch)->num_rows() > 0) {
    const arrow::RecordBatch& batch = **made.batch;
    if (made_++ % kBatchesOfOneSize == 0) {
      bytes_of_row_ = arrow::util::ReferencedBufferSize(batch).ValueOr(kMostBytesAhead) / batch.num_rows() + 1;
    }
    made.bytes = batch.num_rows() * bytes_of_row_;
  }
  return made;
}

// Room for the batches that are ready, one that is made, and one that the consumer has. Those that are a part of what
// is read count there.
void BatchStream::count(const arrow::RecordBatch& batch) {
  if (has_counted_part(batch)) return;
  const int64_t bytes = arrow::util::ReferencedBufferSize(batch).ValueOr(0) * (options_.prefetch_batches + 2);
  if (room_.bytes() == 0) room_ = Ledger::reserve(rows_.windows()->pool().ledger(), 0);
  if (bytes > room_.bytes()) room_.resize(bytes);
}

// The rank's slice of the next step, whose rows of all ranks are `rows`. The slice's `first` is counted from there.
arrow::Result<Slice> BatchStream::slice(int64_t* rows) {
  int64_t batch_size = options_.batch_size;
  if (batch_size > 0) {
    ARROW_ASSIGN_OR_RAISE(*rows, rows_.ahead(batch_size * options_.world_size));
  } else {
    ARROW_ASSIGN_OR_RAISE(*rows, rows_.left_of_window());
    batch_size = std::max<int64_t>(1, (*rows + options_.world_size - 1) / options_.world_size);
  }
  const BatchOptions step{.rows = *rows,
                          .batch_size = batch_size,
                          .world_size = options_.world_size,
                          .equal = options_.equal,
                          .drop_last = options_.drop_last && options_.batch_size > 0};
  if (*rows == 0 || steps_of(step, options_.rank) == 0) return Slice{};
  return slice_of(step, 0, options_.rank);
}

BatchStream::Batch BatchStream::make_batch() {
  while (true) {
    int64_t rows = 0;
    ARROW_ASSIGN_OR_RAISE(const Slice mine, slice(&rows));
    if (rows == 0) return nullptr;
    ARROW_RETURN_NOT_OK(rows_.skip(mine.first));
    std::shared_ptr<arrow::RecordBatch> batch;
    if (mine.rows > 0) {
      ARROW_ASSIGN_OR_RAISE(batch, rows_.next(mine.rows));
    }
    ARROW_RETURN_NOT_OK(rows_.skip(rows - mine.first - mine.rows));
    if (mine.rows + mine.padding == 0) continue;  // this rank has no part in the step: it is the last one, or a window
    return padded(batch, mine, options_.rank * (mine.rows + mine.padding) + mine.rows - rows);
  }
}

// `first`: which row of the order's beginning comes first behind the batch.
BatchStream::Batch BatchStream::padded(const std::shared_ptr<arrow::RecordBatch>& batch, const Slice& slice,
                                       int64_t first) {
  std::shared_ptr<arrow::RecordBatch> whole = batch;
  if (slice.padding > 0) {
    arrow::RecordBatchVector parts;
    std::vector<RowRun> runs;
    const auto add = [&](std::shared_ptr<arrow::RecordBatch> part) {
      runs.push_back({static_cast<int64_t>(parts.size()), 0, part->num_rows()});
      parts.push_back(std::move(part));
    };
    if (batch != nullptr) add(batch);
    for (int64_t missing = slice.padding; missing > 0; first = 0) {
      RowStream again(rows_.windows(), {}, Reading::when_asked);
      ARROW_RETURN_NOT_OK(again.skip(first));
      ARROW_ASSIGN_OR_RAISE(auto part, again.next(missing));
      if (part == nullptr) continue;  // `first` is beyond the end: from the beginning once more
      missing -= part->num_rows();
      add(std::move(part));
    }
    ARROW_ASSIGN_OR_RAISE(whole, gather(parts, runs, reading_memory()));
  }
  if (options_.equal != Equal::pad) return whole;
  return with_padding_column(*whole, slice.rows);
}

}  // namespace paceline::data
