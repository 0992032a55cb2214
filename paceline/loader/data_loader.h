// DataLoader: a dataset in batches, shared out over the ranks, loaded ahead by threads, with a position in
// checkpoints.
//
// Get one from prepare_data_loader(). It owns the dataset; num_workers > 1 copies it for each further thread, because
// torch's datasets are not made for calls from several threads. One training thread uses the loader; one iteration
// runs at a time, and a new one ends the last. Do not move or destroy the loader while an iteration runs.
//
//     for (int64_t epoch = 0; epoch < 2; ++epoch) {
//       for (auto& [images, labels] : loader) { … }     // each iteration is the next epoch
//     }
//
// A loader in a checkpoint goes on with exactly the batches that remain, also at another world size; see
// loader/schedule.h. When the step of a batch was void (state/step.h) the same rows are loaded and given once more.
#pragma once

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "paceline/core/error.h"
#include "paceline/loader/collate.h"
#include "paceline/loader/device.h"
#include "paceline/loader/pipeline.h"
#include "paceline/loader/schedule.h"

namespace paceline {

template <class Dataset>
class DataLoader final : public Stateful {
 public:
  /// What an iteration returns: the examples stacked, or the result of the dataset's get_batch().
  using Batch = loader::BatchOf<Dataset>;

  /// `dataset`: see loader/collate.h for what it can be. `sampler`, if given, decides the order: a DistributedSampler
  /// is used as it is, the rows of any other are split by rank. Throws ConfigError for options that are not allowed, or
  /// a dataset without a size.
  explicit DataLoader(Dataset dataset, DataLoaderOptions options = {}, LoaderPlace place = {},
                      std::shared_ptr<loader::Sampler> sampler = nullptr)
      : schedule_(loader::row_count(dataset), options, std::move(place), std::move(sampler)),
        copy_(schedule_.place().device, schedule_.options().pin_memory.value_or(true)) {
    datasets_.push_back(std::move(dataset));
    if constexpr (std::is_copy_constructible_v<Dataset>) {
      while (static_cast<int64_t>(datasets_.size()) < schedule_.options().num_workers) {
        datasets_.push_back(datasets_.front());
      }
    } else if (schedule_.options().num_workers > 1) {
      throw ConfigError("DataLoaderOptions.num_workers is " + std::to_string(schedule_.options().num_workers) +
                        ", but the dataset cannot be copied, and every thread needs its own; allowed: 0 and 1");
    }
  }

  /// Gives the batches of one iteration, each by reference until the next is asked for. Its destruction ends the
  /// iteration.
  class Iterator {
   public:
    using iterator_concept = std::input_iterator_tag;
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;

    Iterator(Iterator&& other) noexcept : loader_(std::exchange(other.loader_, nullptr)), number_(other.number_) {}
    Iterator& operator=(Iterator&& other) noexcept {
      std::swap(loader_, other.loader_);
      std::swap(number_, other.number_);
      return *this;
    }
    ~Iterator() {
      if (loader_ != nullptr) loader_->end_iteration(number_);
    }
    /// Throws UsageError if the last ++ has thrown, so that there is no batch.
    Batch& operator*() const { return loader_->in_hand(); }
    Batch* operator->() const { return &loader_->in_hand(); }
    /// Waits for the next batch. If the dataset throws, throws an Error that names the row; the next ++ continues
    /// after that batch. Throws UsageError if the loader has begun another iteration meanwhile.
    Iterator& operator++() {
      loader_->advance(number_);
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return number_ != loader_->iteration_ || !loader_->pipeline_; }

   private:
    friend class DataLoader;
    Iterator(DataLoader* loader, int64_t number) : loader_(loader), number_(number) {}
    DataLoader* loader_;
    int64_t number_;
  };

  /// Begins the next epoch, or continues that of a loaded state, and waits for the first batch.
  Iterator begin() {
    end_iteration(iteration_);
    schedule_.begin();
    start_pipeline();
    Iterator iterator(this, ++iteration_);
    advance(iteration_);
    return iterator;
  }
  /// The iterator at the end of an epoch.
  std::default_sentinel_t end() const { return {}; }

  /// Number of batches in a whole epoch on this rank.
  int64_t size() const { return schedule_.size(); }
  /// Number of batches still to come: in the current iteration, or in the next one if there is none. Differs from
  /// size() after a state from the middle of an epoch was loaded.
  int64_t remaining() const { return schedule_.remaining(); }
  /// Number of rows in a batch of this rank.
  int64_t batch_size() const { return schedule_.options().batch_size; }
  /// The epoch of the current iteration, or else of the next one.
  int64_t epoch() const { return schedule_.epoch(); }
  /// Sets the epoch of the next iteration. If a state from the middle of an epoch was loaded, `epoch` equal to that
  /// epoch continues it; any other starts from the beginning.
  void set_epoch(int64_t epoch) { schedule_.set_epoch(epoch); }
  /// The dataset; the copies that further threads use cannot be reached.
  const Dataset& dataset() const { return datasets_.front(); }

  std::string kind() const override { return "loader"; }
  Placement placement() const override { return Placement::replicated; }
  /// Inside the loop the current batch counts as done, so take the state after optimizer.step().
  StateDict state_dict() const override { return schedule_.state_dict(); }
  /// Ends the current iteration; the next one continues from the state. Throws ConfigError if the state belongs to
  /// another dataset (in the middle of an epoch), or is not a loader's state.
  void load_state_dict(const StateDict& state) override {
    end_iteration(iteration_);
    schedule_.load_state_dict(state);
  }

 private:
  struct Loaded {
    Batch batch;
    std::shared_ptr<c10::Event> on_device;
  };

  void start_pipeline() {
    const loader::RowSeed seed{.seed = schedule_.options().seed, .epoch = schedule_.epoch()};
    auto load = [this, seed](int64_t worker, int64_t batch) {
      Loaded loaded{loader::load_batch(datasets_[static_cast<size_t>(worker)], schedule_.rows(batch), seed), nullptr};
      loaded.on_device = copy_.start(loaded.batch);
      return loaded;
    };
    pipeline_ = nullptr;  // ends the threads of the last one before they could meet the new ones at a dataset
    const int64_t batches = schedule_.batches() - schedule_.next_batch();
    const int64_t workers = std::min(schedule_.options().num_workers, batches);
    pipeline_ =
        std::make_unique<loader::BatchPipeline<Loaded>>(load, schedule_.next_batch(), schedule_.batches(), workers,
                                                        std::max<int64_t>({schedule_.options().prefetch, workers, 1}));
  }

  void advance(int64_t number) {
    if (number != iteration_ || !pipeline_) {
      throw UsageError("this iteration of the data loader has ended, because another was begun or a state was loaded");
    }
    batch_.reset();
    const bool applied = schedule_.settle();
    if (schedule_.place().before_batch) schedule_.place().before_batch();
    if (!applied) start_pipeline();
    if (schedule_.next_batch() == schedule_.batches()) {
      end_iteration(number);
      return;
    }
    Loaded loaded = take();
    copy_.wait_for(loaded.batch, loaded.on_device.get());
    batch_.emplace(std::move(loaded.batch));
    schedule_.hand_out();
    if (schedule_.place().after_batch) schedule_.place().after_batch();
  }

  Loaded take() {
    try {
      return pipeline_->next();
    } catch (...) {
      schedule_.skip();  // as the pipeline has
      throw;
    }
  }

  Batch& in_hand() {
    if (!batch_) throw UsageError("the data loader has no batch in hand: the last ++ has thrown, or the epoch is over");
    return *batch_;
  }

  void end_iteration(int64_t number) {
    if (number != iteration_ || !pipeline_) return;
    pipeline_ = nullptr;
    batch_.reset();
    schedule_.end();
  }

  loader::BatchSchedule schedule_;
  loader::DeviceCopy copy_;
  std::vector<Dataset> datasets_;  // one for each thread
  int64_t iteration_ = 0;          // number of the iteration that runs or ran last
  std::optional<Batch> batch_;     // in hand
  std::unique_ptr<loader::BatchPipeline<Loaded>>
      pipeline_;  // of the iteration that runs; last, for its threads use the others
};

}  // namespace paceline
