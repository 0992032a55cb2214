// BatchSchedule: which rows this rank's next batches hold, and how far the loader is. It touches no data.
//
// Epochs: every iteration is the next epoch, beginning with 0; set_epoch() decides the next one. The position counts
// rows of the epoch's global order (loader/sampler.h), all ranks together, and moves on only past steps that were
// applied: a batch is "in hand" from hand_out() until settle() asks the ledger about its step. A state taken meanwhile,
// in the body of the loop, counts the batch in hand as done unless its step is void: save after optimizer.step().
//
// Used by the training thread; rows() also by loader threads, while no begin() or load_state_dict() runs.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <vector>

#include "paceline/loader/options.h"
#include "paceline/loader/sampler.h"
#include "paceline/state/stateful.h"

namespace paceline::loader {

/// Gives row numbers, as torch's RandomSampler and SequentialSampler do.
using Sampler = torch::data::samplers::Sampler<>;

class BatchSchedule {
 public:
  /// `dataset_size` in rows. Without a sampler the order is distributed_order(). A torch DistributedSampler is used as
  /// it is; the rows of any other sampler are shared out by rank. ConfigError for options that are not allowed.
  BatchSchedule(int64_t dataset_size, DataLoaderOptions options, LoaderPlace place,
                std::shared_ptr<Sampler> sampler = nullptr);

  /// Batches of a whole epoch on this rank.
  int64_t size() const;
  /// Batches still to come: in the iteration that runs, or in the next one when none does.
  int64_t remaining() const;
  /// The epoch of the iteration that runs, or else of the next one.
  int64_t epoch() const { return running_ || resumed_ ? epoch_ : next_epoch_; }
  /// Decides the epoch of the next iteration. The epoch of a loaded state goes on at its position, any other starts
  /// anew.
  void set_epoch(int64_t epoch);

  /// An iteration begins.
  void begin();
  /// Batches [first_batch(), batches()) of this iteration are still to be handed out.
  int64_t next_batch() const { return next_batch_; }
  int64_t batches() const { return batches_of(rows_.size()); }
  /// Rows of a batch of this iteration, 0 ≤ batch < batches().
  std::vector<size_t> rows(int64_t batch) const;
  /// The next batch goes to the training thread; its step begins.
  void hand_out();
  /// The next batch is asked for: moves past the one in hand, if there is one. False when its step was void: the same
  /// batch is next again.
  bool settle();
  /// Moves past the next batch, which could not be loaded.
  void skip();
  /// The iteration has ended, by its last batch or early.
  void end();

  StateDict state_dict() const;
  void load_state_dict(const StateDict& state);

  const DataLoaderOptions& options() const { return options_; }
  const LoaderPlace& place() const { return place_; }

 private:
  OrderOptions order_options() const;
  std::vector<size_t> epoch_rows();
  std::vector<size_t> draw_rows();
  int64_t batches_of(size_t rows) const;
  /// Rows of the global order that are done once `batch` of this iteration is.
  int64_t position_after(int64_t batch) const;
  bool in_hand_is_void() const;
  bool shares_itself() const { return distributed_sampler_ != nullptr; }

  int64_t dataset_size_;
  DataLoaderOptions options_;
  LoaderPlace place_;
  std::shared_ptr<Sampler> sampler_;
  torch::data::samplers::DistributedSampler<>* distributed_sampler_ = nullptr;  // sampler_, if it is one
  int64_t sampler_rows_ = 0;  // rows of an epoch of sampler_, before sharing

  int64_t epoch_ = 0;
  int64_t position_ = 0;  // in the epoch, past settled batches
  int64_t next_epoch_ = 0;
  bool begun_ = false;    // epoch_ and position_ say where the loader is; otherwise it is at the start of next_epoch_
  bool resumed_ = false;  // a loaded state waits for the next begin()
  bool running_ = false;

  int64_t start_ = 0;         // position at which this iteration began
  std::vector<size_t> rows_;  // of this rank in this iteration
  int64_t next_batch_ = 0;
  bool in_hand_ = false;
  StepLedger::Mark mark_;  // of the batch in hand
};

}  // namespace paceline::loader
