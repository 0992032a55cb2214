// A rank's batches of an epoch: its slices of global batches (order/global_batch.h), prepared by a thread ahead of the
// consumer.
//
// All ranks see the same stream of rows; each takes its own out of it. So what the ranks get in a step is one piece of
// the order, steps are equally many for all of them (as Equal says), and a state that one rank stores is good for all,
// at any world size. What is given depends on neither threads nor prefetching.
//
// One thread calls next(), state() and the destructor.
#pragma once

#include <arrow/result.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "paceline/data/executor/mixed_stream.h"
#include "paceline/data/order/global_batch.h"

namespace paceline::data {

struct BatchStreamOptions {
  int64_t batch_size = 256;  ///< rows of a rank in a step; 0: the ranks share a window (a chunk, unless rows are mixed)
  int64_t rank = 0;
  int64_t world_size = 1;
  Equal equal = Equal::uneven;
  bool drop_last = false;          ///< leaves out the whole last step if it is smaller than the others
  int64_t prefetch_batches = 1;    ///< prepared ahead, of small ones more; 0: each is made when it is asked for
  uint64_t local_shuffle_key = 0;  ///< of seed and epoch, for StreamState::buffer_rows
  bool begins_early = false;       ///< until RankBatches::read(), others that are read go first
  friend bool operator==(const BatchStreamOptions&, const BatchStreamOptions&) = default;
};

/// The name of the column of truth values that Equal::pad adds: whether the row is padding.
inline constexpr const char* kPaddingColumn = "is_padding";

/// A rank's batches of an epoch, wherever they are made.
class RankBatches {
 public:
  virtual ~RankBatches() = default;
  /// The rank's next batch; a null pointer at the end. An error is given in its place, and again at each later call.
  virtual arrow::Result<std::shared_ptr<arrow::RecordBatch>> next() = 0;
  /// Whether next() has something to give at once.
  virtual bool is_ready() const = 0;
  /// Waits for that, at most so long: for a caller that looks at something else now and then. Returns false when the
  /// time is over, and true at once where next() itself makes the batch.
  virtual bool wait(std::chrono::milliseconds) const { return true; }
  /// Behind the step whose batch next() has given last: what no rank has got yet.
  virtual const StreamState& state() const = 0;
  /// Whether what is left of the epoch is in memory or about to be: time to begin the next one, early.
  virtual bool is_near_end() const { return false; }
  /// Batches that were begun early are read from now on. Any thread may call it.
  virtual void read() {}
};

/// Batches of one epoch, made in the calling process.
///
///     BatchStream batches(source, EpochOrder(source->chunks(), {}), {}, {.batch_size = 32, .rank = 1, .world_size =
///     2}); ARROW_ASSIGN_OR_RAISE(auto batch, batches.next());  // rows 32 … 63
///
/// Of small batches some more are prepared, and the thread sleeps until half of them are gone: to wake it for each
/// would cost more than the batch.
///
/// Of an epoch that is begun early no more is read than what the batches to prefetch need, and only where nobody else
/// needs the room.
class BatchStream : public RankBatches {
 public:
  /// Of windows that other streams may use as well: those of other ranks, of the same epoch.
  BatchStream(std::shared_ptr<Windows> windows, const BatchStreamOptions& options, const StreamState& from = {});
  /// Of windows of its own.
  BatchStream(std::shared_ptr<const Source> source, const EpochOrder& order, const StreamOptions& stream,
              const BatchStreamOptions& options, const StreamState& from = {});
  /// Ends the threads; a read that is under way is waited for.
  ~BatchStream() override;
  BatchStream(const BatchStream&) = delete;
  BatchStream& operator=(const BatchStream&) = delete;

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> next() override;
  bool is_ready() const override;
  bool wait(std::chrono::milliseconds timeout) const override;
  const StreamState& state() const override { return state_; }
  bool is_near_end() const override { return is_near_end_; }
  void read() override;

 private:
  using Batch = arrow::Result<std::shared_ptr<arrow::RecordBatch>>;
  struct Made {
    Batch batch = nullptr;
    StreamState after;
    bool is_near_end = false;
    int64_t bytes = 0;  // about
  };

  bool has_room(int64_t bytes, int64_t times) const;
  Made make();
  void count(const arrow::RecordBatch& batch);
  Batch make_batch();
  arrow::Result<Slice> slice(int64_t* rows);
  Batch padded(const std::shared_ptr<arrow::RecordBatch>& batch, const Slice& slice, int64_t first);
  void make_ahead();

  const BatchStreamOptions options_;
  MixedStream rows_;  // the thread's, once there is one, but for what any thread may call
  const int64_t bytes_ahead_;
  int64_t made_ = 0;  // batches; this and the next are of who makes them
  int64_t bytes_of_row_ = 0;

  Ledger::Reservation room_;  // the thread's, too

  StreamState state_;
  bool is_near_end_ = false;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::deque<Made> ready_;
  int64_t ready_bytes_ = 0;
  bool is_early_ = false;  // nobody reads yet
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace paceline::data
