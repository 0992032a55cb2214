#include "paceline/loader/schedule.h"

#include <algorithm>
#include <string>

#include "paceline/core/error.h"

namespace paceline::loader {
namespace {

/// Makes torch's default CPU generator start from `seed`, and puts its state back afterwards: a sampler that draws from
/// it then gives the same order on all ranks and after a restart.
class SeededGenerator {
 public:
  explicit SeededGenerator(uint64_t seed)
      : generator_(at::detail::getDefaultCPUGenerator()), state_(get_state(generator_)) {
    const std::lock_guard<std::mutex> lock(generator_.mutex());
    generator_.set_current_seed(seed);
  }
  ~SeededGenerator() {
    const std::lock_guard<std::mutex> lock(generator_.mutex());
    generator_.set_state(state_);
  }
  SeededGenerator(const SeededGenerator&) = delete;
  SeededGenerator& operator=(const SeededGenerator&) = delete;

 private:
  static torch::Tensor get_state(at::Generator& generator) {
    const std::lock_guard<std::mutex> lock(generator.mutex());
    return generator.get_state();
  }
  at::Generator generator_;
  torch::Tensor state_;
};

template <class T>
T read_state(const Json& values, const char* name) {
  const auto found = values.find(name);
  if (found == values.end() || !found->is_number_integer()) {
    throw ConfigError(std::string("the state of a data loader has no integer \"") + name + "\": " + values.dump());
  }
  return found->get<T>();
}

}  // namespace

BatchSchedule::BatchSchedule(int64_t dataset_size, DataLoaderOptions options, LoaderPlace place,
                             std::shared_ptr<Sampler> sampler)
    : dataset_size_(dataset_size),
      options_(options),
      place_(std::move(place)),
      sampler_(std::move(sampler)),
      distributed_sampler_(dynamic_cast<torch::data::samplers::DistributedSampler<>*>(sampler_.get())) {
  options_.validate();
  if (options_.evaluation && options_.drop_last) {
    throw ConfigError(
        "DataLoaderOptions.evaluation gives each row exactly once and drop_last leaves rows out; set one of the two");
  }
  if (sampler_ && options_.shuffle) {
    throw ConfigError("DataLoaderOptions.shuffle is true, but the order is the sampler's; let the sampler shuffle");
  }
  if (sampler_) sampler_rows_ = static_cast<int64_t>(draw_rows().size());
}

OrderOptions BatchSchedule::order_options() const {
  return {.size = sampler_ ? sampler_rows_ : dataset_size_,
          .world_size = place_.world_size,
          .rank = place_.rank,
          .seed = options_.seed,
          .epoch = epoch_,
          .shuffle = options_.shuffle,
          .remainder = options_.evaluation  ? Remainder::keep
                       : options_.drop_last ? Remainder::drop
                                            : Remainder::pad,
          .position = position_};
}

/// All rows that the sampler gives for epoch_.
std::vector<size_t> BatchSchedule::draw_rows() {
  const SeededGenerator seeded(static_cast<uint64_t>(options_.seed + epoch_));
  if (distributed_sampler_ != nullptr) distributed_sampler_->set_epoch(static_cast<size_t>(epoch_));
  sampler_->reset(std::nullopt);
  std::vector<size_t> rows;
  while (const auto batch = sampler_->next(static_cast<size_t>(options_.batch_size))) {
    rows.insert(rows.end(), batch->begin(), batch->end());
  }
  return rows;
}

std::vector<size_t> BatchSchedule::epoch_rows() {
  if (!sampler_) return distributed_order(order_options());
  std::vector<size_t> rows = draw_rows();
  sampler_rows_ = static_cast<int64_t>(rows.size());
  if (!shares_itself()) return share_of_rank(rows, order_options());
  const int64_t done = std::min(position_ / place_.world_size, sampler_rows_);
  rows.erase(rows.begin(), rows.begin() + done);
  return rows;
}

int64_t BatchSchedule::batches_of(size_t rows) const {
  const int64_t count = static_cast<int64_t>(rows);
  return options_.drop_last ? count / options_.batch_size : (count + options_.batch_size - 1) / options_.batch_size;
}

int64_t BatchSchedule::size() const {
  if (shares_itself()) return batches_of(static_cast<size_t>(sampler_rows_));
  OrderOptions whole = order_options();
  whole.position = 0;
  return batches_of(static_cast<size_t>(share_size(whole)));
}

int64_t BatchSchedule::remaining() const {
  if (running_) return batches() - next_batch_;
  if (!resumed_) return size();
  if (!shares_itself()) return batches_of(static_cast<size_t>(share_size(order_options())));
  return batches_of(static_cast<size_t>(std::max<int64_t>(sampler_rows_ - position_ / place_.world_size, 0)));
}

void BatchSchedule::set_epoch(int64_t epoch) {
  if (resumed_ && epoch == epoch_) return;
  resumed_ = false;
  if (!running_) begun_ = false;
  next_epoch_ = epoch;
}

void BatchSchedule::begin() {
  if (running_) end();
  if (!resumed_) {
    epoch_ = next_epoch_;
    position_ = 0;
  }
  next_epoch_ = epoch_ + 1;
  begun_ = running_ = true;
  resumed_ = false;
  start_ = position_;
  rows_ = epoch_rows();
  next_batch_ = 0;
}

std::vector<size_t> BatchSchedule::rows(int64_t batch) const {
  const size_t first = static_cast<size_t>(batch * options_.batch_size);
  const size_t last = std::min(first + static_cast<size_t>(options_.batch_size), rows_.size());
  return {rows_.begin() + static_cast<std::ptrdiff_t>(first), rows_.begin() + static_cast<std::ptrdiff_t>(last)};
}

int64_t BatchSchedule::position_after(int64_t batch) const {
  const int64_t own = std::min((batch + 1) * options_.batch_size, static_cast<int64_t>(rows_.size()));
  const int64_t all = start_ + own * place_.world_size;
  return shares_itself() ? all : std::min(all, order_options().size);  // padding is beyond the end
}

bool BatchSchedule::in_hand_is_void() const {
  return !options_.evaluation && place_.ledger && place_.ledger->is_void(mark_);
}

void BatchSchedule::hand_out() {
  in_hand_ = true;
  if (place_.ledger && !options_.evaluation) mark_ = place_.ledger->begin();
}

bool BatchSchedule::settle() {
  if (!in_hand_) return true;
  in_hand_ = false;
  if (in_hand_is_void()) return false;
  skip();
  if (place_.ledger && !options_.evaluation) place_.ledger->applied(mark_);
  return true;
}

void BatchSchedule::skip() {
  position_ = position_after(next_batch_);
  ++next_batch_;
}

void BatchSchedule::end() {
  settle();
  if (running_ && next_batch_ == batches()) begun_ = false;
  running_ = false;
}

StateDict BatchSchedule::state_dict() const {
  const bool counts = in_hand_ && !in_hand_is_void();
  StateDict state;
  state.values = {{"epoch", begun_ ? epoch_ : next_epoch_},
                  {"position", !begun_  ? 0
                               : counts ? position_after(next_batch_)
                                        : position_},
                  {"seed", options_.seed},
                  {"size", dataset_size_},
                  {"world_size", place_.world_size}};
  return state;
}

void BatchSchedule::load_state_dict(const StateDict& state) {
  const int64_t epoch = read_state<int64_t>(state.values, "epoch");
  const int64_t position = read_state<int64_t>(state.values, "position");
  const int64_t seed = read_state<int64_t>(state.values, "seed");
  const int64_t size = read_state<int64_t>(state.values, "size");
  const int64_t world_size = read_state<int64_t>(state.values, "world_size");
  if (position > 0 && size != dataset_size_) {
    throw ConfigError("the data loader stopped inside epoch " + std::to_string(epoch) + " of a dataset of " +
                      std::to_string(size) + " rows; this one has " + std::to_string(dataset_size_) +
                      ". Go on with the same data, or leave the loader out of what is loaded");
  }
  if (position > 0 && shares_itself() && world_size != place_.world_size) {
    throw ConfigError("the data loader stopped inside epoch " + std::to_string(epoch) + " on " +
                      std::to_string(world_size) + " ranks; its distributed sampler cannot go on from there on " +
                      std::to_string(place_.world_size) +
                      ". Use the same number of workers, or no sampler of your own");
  }
  if (position < 0 || (!shares_itself() && position > order_options().size)) {
    throw ConfigError("the state of a data loader has position " + std::to_string(position) + " in an order of " +
                      std::to_string(order_options().size) + " rows");
  }
  options_.seed = seed;
  epoch_ = epoch;
  position_ = position;
  next_epoch_ = epoch + 1;
  begun_ = resumed_ = true;
  running_ = in_hand_ = false;
}

}  // namespace paceline::loader
