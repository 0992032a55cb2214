// A rank's rows of a dataset, epoch after epoch: which epoch an iteration is, and where it begins.
//
// Each iteration is the next epoch, also after one that was left early. Batches are slices of global batches
// (executor/batch_stream.h), so a state that one rank stores is good for all, at any world size. One thread calls the
// functions; what they give may outlive the Epochs.
//
// When what is left of an epoch is in memory, or about to be, the next one is begun, so that its first batches are
// there when they are asked for. It takes only memory that nobody else needs. Not where that calls functions of users,
// who may never want them called, nor where nothing is prefetched, nor where rows are mixed in buffers, of which there
// would be two.
#pragma once

#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <memory>
#include <optional>

#include "paceline/core/json.h"
#include "paceline/core/posix/forks.h"
#include "paceline/data/reader/reader.h"

namespace paceline::data {

/// Which rows of a step are a rank's.
struct RankShare {
  int64_t rank = 0;
  int64_t world_size = 1;
  Equal equal = Equal::uneven;
};

/// How the batches of an iteration are made.
struct EpochOptions {
  std::optional<int64_t> batch_size = 256;  ///< rows of this rank; nullopt: whole blocks
  bool drop_last = false;                   ///< leaves out a last batch of fewer rows
  int64_t prefetch_batches = 1;             ///< prepared ahead; they are the same for any number
  /// Rows are mixed once more, at least so many at a time, another way in each epoch.
  std::optional<int64_t> local_shuffle_buffer_size = std::nullopt;
  int64_t local_shuffle_seed = 0;
  std::optional<Equal> equal = std::nullopt;  ///< instead of RankShare's
  bool begins_next = true;                    ///< whether another epoch is likely: see Epochs
  int64_t threads = 2;                        ///< as BatchRequest has it
  int64_t read_ahead_bytes = kDefaultBudget;  ///< likewise

  /// Invalid for a number that is not allowed.
  arrow::Status validate() const;
};

/// Which of the steps count for which batches are given: a train loop can make one void, and gets its batch again.
class CountedSteps {
 public:
  virtual ~CountedSteps() = default;
  /// A batch is given: a step begins.
  virtual void begin() = 0;
  /// Whether the step of that batch was made void.
  virtual bool is_void() const = 0;
  /// The next batch is asked for, and the step was not void.
  virtual void applied() = 0;
};

/// A rank's rows, epoch after epoch.
///
///     Epochs epochs(reader, {.rank = 1, .world_size = 2});
///     ARROW_ASSIGN_OR_RAISE(auto batches, epochs.begin({.batch_size = 64}));  // epoch 0
///     ARROW_ASSIGN_OR_RAISE(auto batch, batches->next());
///     ARROW_ASSIGN_OR_RAISE(Json state, epochs.state());  // behind that batch
class Epochs {
 public:
  Epochs(std::shared_ptr<DatasetReader> reader, const RankShare& share) : reader_(std::move(reader)), share_(share) {}

  /// Batches of the next epoch, or of what is left of it. With `steps`, a batch is given again whose step was void.
  /// Invalid as EpochOptions::validate() says.
  arrow::Result<std::unique_ptr<RankBatches>> begin(const EpochOptions& options,
                                                    std::shared_ptr<CountedSteps> steps = nullptr);
  /// Which epoch the batch given last is of; before the first, and behind an epoch's end, the one that comes next.
  int64_t epoch() const { return place_->now().epoch; }
  /// The next iteration is this epoch, from its beginning; if a state from its middle was loaded, from there.
  void set_epoch(int64_t epoch) {
    if (!resumed_ || epoch != place_->next.epoch) begin_at({.epoch = epoch, .state = {}});
  }
  /// The next iteration passes over the next rows of the epoch: of all ranks together. Of an epoch that nobody has
  /// begun, these are the rows that come first in that iteration, mixed in buffers or not.
  arrow::Status skip(int64_t rows);
  /// This rank's rows of an epoch; nullopt where they are not known before they are read (a filter).
  arrow::Result<std::optional<int64_t>> rows() const;
  /// Where the next batch begins: less than 1 KB, the same on every rank after the same step.
  arrow::Result<Json> state() const;
  /// The next iteration goes on where state() was called. Invalid for what is no state, or one of another dataset:
  /// other files, other steps, another seed. Where nobody has chosen the seed of the order, that of the state counts
  /// from now on.
  arrow::Status load_state(const Json& state);

  /// What is begun of the next epoch, or a null pointer: for who ends it elsewhere, since a read that is under way is
  /// waited for.
  std::unique_ptr<RankBatches> take_begun() { return std::move(begun_->batches); }

  const std::shared_ptr<DatasetReader>& reader() const { return reader_; }
  const RankShare& share() const { return share_; }

 private:
  class Batches;
  struct Point {
    int64_t epoch = 0;
    StreamState state;
  };
  // How far it is.
  struct Place {
    Point done;                                        // behind the batch that was given last
    Point before;                                      // in front of it
    Point next;                                        // what the next iteration begins with
    std::shared_ptr<const CountedSteps> in_hand = {};  // of that batch, while it may still be made void
    const Point& now() const { return in_hand != nullptr && in_hand->is_void() ? before : done; }
  };

  // An epoch that is begun before anybody reads it.
  struct Begun {
    HomeProcess home;
    BatchRequest request;
    std::unique_ptr<RankBatches> batches;
  };

  BatchRequest request_of(const Point& from, const EpochOptions& options) const;
  arrow::Result<StreamState> in_buffers(const StreamState& skipped, const EpochOptions& options) const;
  bool begins_next(const EpochOptions& options);
  void begin_at(const Point& point) {
    *place_ = {.done = point, .before = point, .next = point};
    resumed_ = false;
    skipped_ = false;
  }

  const std::shared_ptr<DatasetReader> reader_;
  const RankShare share_;
  const std::shared_ptr<Place> place_ = std::make_shared<Place>();
  const std::shared_ptr<Begun> begun_ = std::make_shared<Begun>();
  bool resumed_ = false;         // a loaded state waits for it
  bool skipped_ = false;         // what is before its next point was passed over, all of it
  std::optional<int64_t> seed_;  // of a state that was loaded, if nobody has chosen one
  std::optional<bool> calls_functions_;
};

}  // namespace paceline::data
