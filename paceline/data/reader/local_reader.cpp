#include <chrono>
#include <map>
#include <mutex>

#include "paceline/core/posix/forks.h"
#include "paceline/data/executor/read_pool.h"
#include "paceline/data/reader/home_batches_internal.h"
#include "paceline/data/reader/reader.h"

namespace paceline::data {
namespace {

constexpr int64_t kEpochsAhead = 2;  // by which one consumer may be before another that finds its windows there
constexpr int64_t kMostRows = int64_t{1} << 40;  // of a step: sums of them are numbers still

// Whether the row is one of the window, and as many rows stand before it as the state says. Where rows are not counted
// before they are read, the stream finds out.
bool is_in_order(const StreamState& state, const EpochOrder& order) {
  const auto& [rows, window, row] = state.position;
  if (window == static_cast<int64_t>(order.windows().size()))
    return row == 0 && rows == order.rows() && state.done == 0;
  const Window& in = order.windows()[static_cast<size_t>(window)];
  return row <= in.rows && rows == in.first + row && state.done <= order.rows() - rows;
}

// A state may come from a file, a request from another process.
arrow::Status check_state(const StreamState& state, const EpochOrder& order, bool counts_rows) {
  const auto windows = static_cast<int64_t>(order.windows().size());
  const auto& [rows, window, row] = state.position;
  if (rows >= 0 && window >= 0 && window <= windows && row >= 0 && row <= rows && state.buffer_rows >= 0 &&
      state.buffer >= 0 && state.buffer <= rows && state.done >= 0 && state.done <= state.buffer_rows &&
      (!counts_rows || is_in_order(state, order))) {
    return arrow::Status::OK();
  }
  return arrow::Status::Invalid("there is no such place in the epoch, which has ", windows, " windows",
                                counts_rows ? " and " + std::to_string(order.rows()) + " rows" : "", ": rows ", rows,
                                ", window ", window, ", row ", row, ", buffer ", state.buffer, " of ",
                                state.buffer_rows, " rows, of which ", state.done,
                                " are done; is the state one that state_dict() gave?");
}

arrow::Status check_request(const BatchRequest& request) {
  const BatchStreamOptions& options = request.options;
  if (options.world_size < 1 || options.rank < 0 || options.rank >= options.world_size) {
    return arrow::Status::Invalid("rank ", options.rank, " of ", options.world_size);
  }
  if (options.batch_size >= 0 && options.batch_size <= kMostRows / options.world_size) return arrow::Status::OK();
  return arrow::Status::Invalid("batch_size is ", options.batch_size, "; allowed: 0 to ",
                                kMostRows / options.world_size);
}

double seconds(std::chrono::duration<double> duration) {
  return duration.count();
}

class LocalReader : public DatasetReader {
 public:
  explicit LocalReader(OpenPlan plan) : plan_(std::move(plan)) {}

  arrow::Result<DatasetFacts> facts() override {
    DatasetFacts facts{.fingerprint = plan_.source->fingerprint(),
                       .seed = plan_.order.seed,
                       .seed_is_drawn = plan_.order.seed_is_drawn,
                       .counts_rows = plan_.source->counts_rows(),
                       .blocks = static_cast<int64_t>(plan_.source->chunks().size()),
                       .calls_functions = plan_.calls_functions};
    for (const ChunkSize& chunk : plan_.source->chunks()) {
      facts.rows += chunk.rows;
      facts.bytes += chunk.bytes;
    }
    return facts;
  }

  arrow::Result<std::shared_ptr<arrow::Schema>> schema() override { return plan_.source->schema(); }

  arrow::Result<std::unique_ptr<RankBatches>> batches(const BatchRequest& request) override {
    ARROW_RETURN_NOT_OK(check_request(request));
    BatchStreamOptions options = request.options;
    options.local_shuffle_key =
        mix(static_cast<uint64_t>(request.local_shuffle_seed), static_cast<uint64_t>(request.epoch));
    const auto pool = shared_pool(static_cast<int>(request.threads), request.read_ahead_bytes);
    auto windows = windows_of(request, pool);
    ARROW_RETURN_NOT_OK(check_state(request.from, windows->order(), plan_.source->counts_rows()));
    auto stream = std::make_unique<BatchStream>(std::move(windows), options, request.from);
    has_come({request.epoch, seed_of(request.seed), pool.get()});
    return at_home(std::move(stream));
  }

  arrow::Result<StreamState> skipped(int64_t epoch, std::optional<int64_t> seed, int64_t rows,
                                     const StreamState& from) override {
    if (rows < 0) return arrow::Status::Invalid("skip() of ", rows, " rows; allowed: 0 or more");
    EpochOrder order = order_of(epoch, seed);
    ARROW_RETURN_NOT_OK(check_state(from, order, plan_.source->counts_rows()));
    MixedStream stream(own_windows(plan_.source, std::move(order), {}), 0, from);
    ARROW_RETURN_NOT_OK(stream.skip(rows));
    return stream.state();
  }

  arrow::Result<DatasetFigures> statistics() override {
    DatasetFigures all;
    for (const auto& step : plan_.statistics) {
      const Durations& busy = step->busy;
      all.steps.push_back({.name = step->name,
                           .num_task_outputs_generated = step->blocks,
                           .num_row_inputs_received = step->rows_in,
                           .rows_task_outputs_generated = step->rows_out,
                           .bytes_task_outputs_generated = step->bytes_out,
                           .num_tasks_running = step->in_hand.count(),
                           .task_running_time_max = seconds(step->in_hand.longest()),
                           .block_generation_time = seconds(busy.sum()),
                           .block_generation_time_min = seconds(busy.shortest()),
                           .block_generation_time_max = seconds(busy.longest()),
                           .block_generation_time_p50 = seconds(busy.quantile(0.5)),
                           .block_generation_time_p95 = seconds(busy.quantile(0.95)),
                           .task_submission_backpressure_time = seconds(std::chrono::nanoseconds(step->waited_ns))});
    }
    ReadAheadFigures& ahead = all.read_ahead;
    ahead.windows_read = read_ahead_->windows_read;
    ahead.windows_taken = read_ahead_->windows_taken;
    ahead.task_output_backpressure_time = seconds(std::chrono::nanoseconds(read_ahead_->waited_for_room_ns));
    ahead.input_wait_time = seconds(std::chrono::nanoseconds(read_ahead_->waited_ns));
    for (const std::shared_ptr<Windows>& windows : windows_that_live()) {
      const auto [blocks, bytes] = windows->in_memory();
      ahead.num_external_outqueue_blocks += blocks;
      ahead.num_external_outqueue_bytes += bytes;
    }
    return all;
  }

 private:
  int64_t seed_of(std::optional<int64_t> asked) const { return asked.value_or(plan_.order.seed); }

  EpochOrder order_of(int64_t epoch, std::optional<int64_t> seed) const {
    OrderOptions order = plan_.order;
    order.seed = seed_of(seed);
    order.epoch = epoch;
    return EpochOrder(plan_.source->chunks(), order);
  }

  struct Key {  // an order
    int64_t epoch = 0;
    int64_t seed = 0;
    const ReadPool* pool = nullptr;
    auto operator<=>(const Key&) const = default;
  };
  struct Shared {
    std::weak_ptr<Windows> windows;
    std::shared_ptr<Windows> kept;  // while consumers are missing
    int64_t missing = 0;
  };

  std::vector<std::shared_ptr<Windows>> windows_that_live() {
    std::vector<std::shared_ptr<Windows>> all;
    const std::lock_guard lock(known_->mutex);
    for (const auto& [epoch, shared] : known_->windows) {
      if (auto windows = shared.windows.lock()) all.push_back(std::move(windows));
    }
    return all;
  }

  // Those of the epoch that a stream has already, if one has and could read them.
  std::shared_ptr<Windows> windows_of(const BatchRequest& request, const std::shared_ptr<ReadPool>& pool) {
    std::shared_ptr<Windows> failed;  // goes without the lock
    std::shared_ptr<Windows> failed_and_kept;
    const std::lock_guard lock(known_->mutex);
    std::erase_if(known_->windows, [](const auto& other) { return other.second.windows.expired(); });
    Shared& shared = known_->windows[{request.epoch, seed_of(request.seed), pool.get()}];
    std::shared_ptr<Windows> windows = shared.windows.lock();
    if (windows != nullptr && windows->has_failed()) {
      failed = std::move(windows);
      failed_and_kept = std::move(shared.kept);
    }
    if (windows == nullptr) {
      windows = std::make_shared<Windows>(plan_.source, order_of(request.epoch, request.seed), pool, read_ahead_);
      shared = {.windows = windows, .missing = request.consumers};
      if (request.consumers > 1) {
        windows->expect_more(true);
        shared.kept = windows;
      }
    }
    return windows;
  }

  // A consumer of the epoch has its stream. Those of former epochs that still miss one have waited long enough.
  void has_come(const Key& key) {
    std::vector<std::shared_ptr<Windows>> complete;  // change without the lock
    {
      const std::lock_guard lock(known_->mutex);
      --known_->windows[key].missing;
      for (auto& [other, shared] : known_->windows) {
        if (shared.missing > 0 && other.epoch > key.epoch - kEpochsAhead) continue;
        if (shared.kept != nullptr) complete.push_back(std::move(shared.kept));
      }
    }
    for (const auto& windows : complete) windows->expect_more(false);
  }

  const OpenPlan plan_;
  const std::shared_ptr<ReadAheadStatistics> read_ahead_ = std::make_shared<ReadAheadStatistics>();
  struct Known {
    std::mutex mutex;
    std::map<Key, Shared> windows;
  };
  const PerProcess<Known> known_;
};

}  // namespace

std::shared_ptr<DatasetReader> local_reader(OpenPlan plan) {
  return std::make_shared<LocalReader>(std::move(plan));
}

}  // namespace paceline::data
