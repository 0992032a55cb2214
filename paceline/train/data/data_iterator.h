// DataIterator: a rank's rows of a dataset as tensors, epoch after epoch.
//
// In a train loop get_dataset_shard() gives one, whose place is stored in reported checkpoints; anywhere else it is
// made of a dataset. Copies are the same iterator. One thread uses it; one iteration runs at a time. Errors are
// exceptions, when the batch is due in which they are: StorageError for what cannot be read, ConfigError for the rest.
#pragma once

#include <torch/torch.h>

#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "paceline/core/json.h"
#include "paceline/data/dataset/dataset.h"
#include "paceline/data/reader/epochs.h"
#include "paceline/loader/options.h"
#include "paceline/train/data/batch.h"
#include "paceline/train/data/execution_options.h"

namespace paceline {

/// How DataIterator::iter_batches() makes batches.
struct IterBatchesOptions {
  std::optional<int64_t> batch_size = 256;  ///< rows of this rank; nullopt: whole blocks
  int64_t prefetch_batches = 1;             ///< prepared ahead; they come in the same order for any number
  bool drop_last = false;                   ///< leaves out a last batch of fewer rows
  /// Rows are mixed once more, at least so many at a time, another way in each epoch.
  std::optional<int64_t> local_shuffle_buffer_size = std::nullopt;
  int64_t local_shuffle_seed = 0;                      ///< of that
  std::optional<torch::Device> device = std::nullopt;  ///< where tensors are to be; nullopt: where the worker computes
  bool pin_memory = true;                              ///< copy to a GPU through page-locked memory
  bool evaluation = false;                             ///< batches do not count as training steps
};

namespace train {

/// The batches of one iteration, in the place of a loader.
class BatchIteration {
 public:
  BatchIteration(data::Epochs& epochs, const IterBatchesOptions& options, const LoaderPlace& place,
                 const ReadLimits& limits);
  ~BatchIteration();
  /// nullopt at the end.
  std::optional<TensorBatch> next();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace train

/// What iter_batches() gives: each begin() is the next epoch.
template <class Batch>
class BatchRange {
 public:
  /// Gives the batches of one iteration, each by reference until the next is asked for. Its destruction ends the
  /// iteration.
  class Iterator {
   public:
    using iterator_concept = std::input_iterator_tag;
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;

    explicit Iterator(std::unique_ptr<train::BatchIteration> iteration) : iteration_(std::move(iteration)) { ++*this; }
    Batch& operator*() const { return *batch_; }
    Batch* operator->() const { return &*batch_; }
    /// Waits for the next batch.
    Iterator& operator++() {
      batch_.reset();
      if (auto batch = iteration_->next()) batch_ = train::batch_as<Batch>(*std::move(batch));
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return !batch_; }

   private:
    std::unique_ptr<train::BatchIteration> iteration_;
    mutable std::optional<Batch> batch_;
  };

  /// Made by DataIterator::iter_batches().
  BatchRange(std::shared_ptr<data::Epochs> epochs, IterBatchesOptions options, LoaderPlace place,
             train::ReadLimits limits)
      : epochs_(std::move(epochs)), options_(options), place_(std::move(place)), limits_(limits) {}
  /// Begins the next epoch, or what is left of one, and waits for the first batch.
  Iterator begin() const {
    return Iterator(std::make_unique<train::BatchIteration>(*epochs_, options_, place_, limits_));
  }
  /// Behind the last batch.
  std::default_sentinel_t end() const { return {}; }

 private:
  std::shared_ptr<data::Epochs> epochs_;
  IterBatchesOptions options_;
  LoaderPlace place_;
  train::ReadLimits limits_;
};

/// What iter_rows() gives: each begin() is the next epoch.
template <class Row>
class RowRange {
 public:
  /// Gives the rows of one iteration, each by reference until the next is asked for.
  class Iterator {
   public:
    using iterator_concept = std::input_iterator_tag;
    using value_type = Row;
    using difference_type = std::ptrdiff_t;

    explicit Iterator(BatchRange<TensorBatch>::Iterator batches) : batches_(std::move(batches)) { take(); }
    Row& operator*() const { return *row_; }
    Row* operator->() const { return &*row_; }
    /// Waits for the next row where it is not read yet.
    Iterator& operator++() {
      ++place_;
      take();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return !row_; }

   private:
    void take() {
      row_.reset();
      for (; batches_ != std::default_sentinel; ++batches_, place_ = 0) {
        if (batches_->empty() || place_ == batches_->begin()->second.size(0)) continue;
        TensorBatch row;
        for (const auto& [name, values] : *batches_) row.emplace(name, values.select(0, place_));
        row_ = train::batch_as<Row>(std::move(row));
        return;
      }
    }

    BatchRange<TensorBatch>::Iterator batches_;
    int64_t place_ = 0;
    mutable std::optional<Row> row_;
  };

  /// Made by DataIterator::iter_rows().
  explicit RowRange(BatchRange<TensorBatch> batches) : batches_(std::move(batches)) {}
  /// Begins the next epoch, or what is left of one, and waits for the first row.
  Iterator begin() const { return Iterator(batches_.begin()); }
  /// Behind the last row.
  std::default_sentinel_t end() const { return {}; }

 private:
  BatchRange<TensorBatch> batches_;
};

/// A rank's rows of a dataset. Each iteration is the next epoch, also after one that was left early.
///
///     auto shard = paceline::get_dataset_shard("train");
///     while (shard.epoch() < 10) {
///       for (auto& batch : shard.iter_batches({.batch_size = 64})) step(batch.at("image"), batch.at("label"));
///     }
class DataIterator {
 public:
  /// Of a dataset outside a train loop. `share`: which of the rows. `options`: what reading may use.
  explicit DataIterator(const data::Dataset& dataset, const data::RankShare& share = {},
                        const ExecutionOptions& options = {});
  /// get_dataset_shard() makes it.
  DataIterator(std::shared_ptr<data::Epochs> epochs, LoaderPlace place, train::ReadLimits limits)
      : epochs_(std::move(epochs)), place_(std::move(place)), limits_(limits) {}

  /// Batches of this rank as tensors, by the names of their columns (TensorBatch) or in a struct (PACELINE_BATCH).
  /// ConfigError for options that are not allowed, or a column that the struct wants and the dataset has not.
  template <class Batch = TensorBatch>
  BatchRange<Batch> iter_batches(const IterBatchesOptions& options = {}) const {
    check(options);
    return BatchRange<Batch>(epochs_, options, place_, limits_);
  }

  /// Rows of this rank, by the names of their columns or in a struct: tensors without a dimension for rows, which share
  /// memory with their neighbours. They are read 256 at a time, which state_dict() takes as one batch.
  ///
  ///     for (auto& row : DataIterator(ds).iter_rows()) std::cout << row.at("label").item<int64_t>() << "\n";
  template <class Row = TensorBatch>
  RowRange<Row> iter_rows() const {
    return RowRange<Row>(iter_batches());
  }

  /// The epoch of the batch that was given last; before the first, and behind an epoch's end, the one that comes next.
  int64_t epoch() const { return epochs_->epoch(); }
  /// The next iteration is this epoch, from its beginning; if a state from its middle was loaded, from there.
  void set_epoch(int64_t epoch) { epochs_->set_epoch(epoch); }
  /// The next iteration passes over the next rows of the epoch: of all ranks together.
  void skip(int64_t rows);
  /// This rank's rows of an epoch. UsageError where they are not known before they are read (a filter).
  int64_t size() const;
  /// Where the next batch begins, the same on every rank after the same step. The batch in hand counts as done, unless
  /// its step is void.
  Json state_dict() const;
  /// Goes on where state_dict() was called, with any number of ranks. ConfigError for a state of another dataset.
  void load_state_dict(const Json& state);

  /// The dataset's columns.
  std::shared_ptr<arrow::Schema> schema() const;
  /// What has been read so far, step by step.
  std::string stats() const;

 private:
  static void check(const IterBatchesOptions& options);

  std::shared_ptr<data::Epochs> epochs_;
  LoaderPlace place_;
  train::ReadLimits limits_;
};

/// The rows of tensors, along their first dimension, in one block; numbers are not copied. ConfigError for tensors that
/// no column can hold, or of different lengths.
data::Dataset from_torch(const TensorBatch& columns);

/// An iterator for each of `n` consumers, who share each epoch's rows. With `equal` all get equally many, and at most
/// n - 1 are left out; otherwise they may differ by one.
std::vector<DataIterator> streaming_split(const data::Dataset& dataset, int64_t n,
                                          const data::SplitOptions& options = {});

/// This worker's share of a dataset of the trainer: the same iterator each time. "" is the only one that there is.
/// UsageError outside a train loop; ConfigError for a name that the trainer was not given.
///
/// Its place is stored in the checkpoints that are reported. If the run has restarted and DataConfig::resume is set,
/// the first iteration goes on there, in the middle of an epoch, whatever the number of workers is now.
DataIterator get_dataset_shard(const std::string& name = "");

}  // namespace paceline
