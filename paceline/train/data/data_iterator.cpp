#include "paceline/train/data/data_iterator.h"

#include <arrow/record_batch.h>

#include "paceline/core/error.h"
#include "paceline/data/dataset/read_api.h"
#include "paceline/data/reader/statistics_text.h"
#include "paceline/loader/device.h"
#include "paceline/train/data/step_batches.h"
#include "paceline/train/data/tensors.h"

namespace paceline {
namespace {

data::EpochOptions epoch_options(const IterBatchesOptions& options, const train::ReadLimits& limits) {
  return {.batch_size = options.batch_size,
          .drop_last = options.drop_last,
          .prefetch_batches = options.prefetch_batches,
          .local_shuffle_buffer_size = options.local_shuffle_buffer_size,
          .local_shuffle_seed = options.local_shuffle_seed,
          .equal = options.evaluation ? std::optional(data::Equal::uneven) : std::nullopt,
          .threads = limits.threads,
          .read_ahead_bytes = limits.read_ahead_bytes};
}

}  // namespace

namespace train {

struct BatchIteration::Parts {
  std::unique_ptr<data::RankBatches> batches;
  loader::DeviceCopy copy;
};

BatchIteration::BatchIteration(data::Epochs& epochs, const IterBatchesOptions& options, const LoaderPlace& place,
                               const ReadLimits& limits)
    : parts_(std::make_unique<Parts>(
          Parts{.batches = step_batches(epochs, epoch_options(options, limits), place, !options.evaluation),
                .copy = loader::DeviceCopy(options.device.value_or(place.device), options.pin_memory)})) {}

BatchIteration::~BatchIteration() = default;

std::optional<TensorBatch> BatchIteration::next() {
  const auto rows = value_or_throw(parts_->batches->next());
  if (rows == nullptr) return std::nullopt;
  TensorBatch batch = value_or_throw(to_tensors(*rows));
  std::vector<torch::Tensor> tensors;
  for (auto& [name, tensor] : batch) tensors.push_back(std::move(tensor));
  const auto copied = parts_->copy.start(tensors);
  parts_->copy.wait_for(tensors, copied.get());
  auto tensor = tensors.begin();
  for (auto& [name, column] : batch) column = std::move(*tensor++);
  return batch;
}

}  // namespace train

DataIterator::DataIterator(const data::Dataset& dataset, const data::RankShare& share, const ExecutionOptions& options)
    : DataIterator(std::make_shared<data::Epochs>(dataset.reader(), share), LoaderPlace{}, train::limits_of(options)) {
  options.validate();
}

void DataIterator::check(const IterBatchesOptions& options) {
  throw_if_error(epoch_options(options, {}).validate());
}

void DataIterator::skip(int64_t rows) {
  throw_if_error(epochs_->skip(rows));
}

int64_t DataIterator::size() const {
  if (const auto rows = value_or_throw(epochs_->rows())) return *rows;
  throw UsageError(
      "the number of rows is not known before they are read (a filter, or a function that may give more or fewer); "
      "Dataset::count() reads them");
}

Json DataIterator::state_dict() const {
  return value_or_throw(epochs_->state());
}

void DataIterator::load_state_dict(const Json& state) {
  throw_if_error(epochs_->load_state(state));
}

std::shared_ptr<arrow::Schema> DataIterator::schema() const {
  return value_or_throw(epochs_->reader()->schema());
}

std::string DataIterator::stats() const {
  return data::statistics_text(value_or_throw(epochs_->reader()->statistics()));
}

data::Dataset from_torch(const TensorBatch& columns) {
  return data::from_arrow({value_or_throw(to_rows(columns))});
}

std::vector<DataIterator> streaming_split(const data::Dataset& dataset, int64_t n, const data::SplitOptions& options) {
  std::vector<DataIterator> parts;
  for (int64_t rank = 0; rank < n; ++rank) {
    parts.emplace_back(
        dataset, data::RankShare{
                     .rank = rank, .world_size = n, .equal = options.equal ? data::Equal::drop : data::Equal::uneven});
  }
  return parts;
}

}  // namespace paceline
