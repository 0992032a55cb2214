#include "paceline/data/reader/epochs.h"

#include <arrow/record_batch.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "paceline/core/record.h"

namespace paceline::data {
namespace {

constexpr int64_t kStateVersion = 1;
constexpr int64_t kMostEpochs = int64_t{1} << 53;  // behind which others may come

#define PACELINE_EPOCH_STATE_FIELDS(FIELD)                                \
  FIELD(int64_t, version, 0)                                              \
  FIELD(uint64_t, fingerprint, 0)                                         \
  FIELD(int64_t, seed, 0)                                                 \
  FIELD(int64_t, epoch, 0)                                                \
  FIELD(int64_t, rows, 0)        /* Position::rows */                     \
  FIELD(int64_t, window, 0)      /* Position::window */                   \
  FIELD(int64_t, row, 0)         /* Position::row */                      \
  FIELD(int64_t, buffer_rows, 0) /* this and the others: StreamState's */ \
  FIELD(int64_t, buffer, 0)                                               \
  FIELD(int64_t, done, 0)
PACELINE_RECORD(EpochState, PACELINE_EPOCH_STATE_FIELDS);

// A state may come from a file that somebody has changed: a number that is missing, or is none, would be taken as 0.
arrow::Result<EpochState> epoch_state_of(const Json& json) {
  EpochState state;
  std::string wrong;
  EpochState::visit(state, [&](const char* name, auto& value) {
    using Value = std::remove_reference_t<decltype(value)>;
    const auto found = json.find(name);
    if (found == json.end()) {
      wrong = std::string(name) + " is missing";
      return;
    }
    const bool is_whole = found->is_number_unsigned()  ? std::in_range<Value>(found->template get<uint64_t>())
                          : found->is_number_integer() ? std::in_range<Value>(found->template get<int64_t>())
                                                       : false;
    if (is_whole) {
      value = found->template get<Value>();
    } else {
      wrong = std::string(name) + " is " + readable_json(*found) + "; wanted: a whole number";
    }
  });
  if (wrong.empty() && (state.epoch < 0 || state.epoch > kMostEpochs)) {
    wrong = "epoch is " + std::to_string(state.epoch) + "; wanted: a number from 0 to " + std::to_string(kMostEpochs);
  }
  if (wrong.empty()) return state;
  return arrow::Status::Invalid("this is no state of a dataset, as state_dict() gives it: ", wrong);
}

template <typename Value>
arrow::Status check_same(const char* name, const Value& got, const Value& wanted) {
  if (got == wanted) return arrow::Status::OK();
  return arrow::Status::Invalid("the state is of another dataset: its ", name, " is ", got, ", here it is ", wanted,
                                ". The same files, unchanged, and the same steps with the same seeds are needed; "
                                "steps that are given no seed (random_sample(), a split of a random_shuffle()) draw "
                                "another one each time: give them one");
}

}  // namespace

arrow::Status EpochOptions::validate() const {
  const auto check_rows = [](const char* name, const std::optional<int64_t>& rows) {
    if (!rows || *rows >= 1) return arrow::Status::OK();
    return arrow::Status::Invalid(name, " is ", *rows, "; allowed: a number of rows from 1, or none");
  };
  ARROW_RETURN_NOT_OK(check_rows("batch_size", batch_size));
  ARROW_RETURN_NOT_OK(check_rows("local_shuffle_buffer_size", local_shuffle_buffer_size));
  if (prefetch_batches < 0) {
    return arrow::Status::Invalid("prefetch_batches is ", prefetch_batches, "; allowed: a number from 0");
  }
  if (local_shuffle_buffer_size && !batch_size) {
    return arrow::Status::Invalid("local_shuffle_buffer_size needs a batch_size");
  }
  return arrow::Status::OK();
}

// Batches of one epoch, which keep their Epochs' place, and begin the next one.
class Epochs::Batches : public RankBatches {
 public:
  Batches(std::unique_ptr<RankBatches> batches, const Point& from, std::shared_ptr<Place> place,
          std::shared_ptr<CountedSteps> steps)
      : batches_(std::move(batches)), place_(std::move(place)), steps_(std::move(steps)), done_(from) {}

  void begin_early(std::shared_ptr<DatasetReader> reader, const BatchRequest& request, std::shared_ptr<Begun> begun) {
    reader_ = std::move(reader);
    next_ = request;
    begun_ = std::move(begun);
  }

  ~Batches() override {
    if (batch_ != nullptr) settle();
  }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> next() override {
    if (batch_ != nullptr && !settle()) return given(std::move(again_));
    ARROW_ASSIGN_OR_RAISE(auto batch, batches_->next());
    before_ = done_;
    if (batch == nullptr) {
      place_->done = place_->before = place_->next;
      return nullptr;
    }
    done_.state = batches_->state();
    if (next_ && batches_->is_near_end()) begin_next();
    return given(std::move(batch));
  }

  bool is_ready() const override { return repeats() || batches_->is_ready(); }
  bool wait(std::chrono::milliseconds timeout) const override { return repeats() || batches_->wait(timeout); }
  const StreamState& state() const override { return done_.state; }

 private:
  bool repeats() const { return batch_ != nullptr && steps_->is_void(); }

  // An error comes again when the epoch is due.
  void begin_next() {
    if (begun_->batches == nullptr) {
      BatchRequest early = *next_;
      early.options.begins_early = true;
      *begun_ = {.home = {}, .request = *next_, .batches = reader_->batches(early).ValueOr(nullptr)};
    }
    next_.reset();
  }

  std::shared_ptr<arrow::RecordBatch> given(std::shared_ptr<arrow::RecordBatch> batch) {
    place_->done = done_;
    place_->before = before_;
    if (steps_ == nullptr) return batch;
    steps_->begin();
    place_->in_hand = steps_;
    return batch_ = std::move(batch);
  }

  // The batch in hand is left: false where it is to be given again.
  bool settle() {
    const bool counts = !steps_->is_void();
    if (counts) steps_->applied();
    if (place_->in_hand == steps_) {
      if (!counts) place_->done = place_->before;
      place_->in_hand = nullptr;
    }
    again_ = std::move(batch_);
    return counts;
  }

  const std::unique_ptr<RankBatches> batches_;
  const std::shared_ptr<Place> place_;
  const std::shared_ptr<CountedSteps> steps_;  // null: all count
  Point before_;                               // in front of the batch given last
  Point done_;                                 // behind it
  std::shared_ptr<arrow::RecordBatch> batch_;  // in hand, where its step may be void
  std::shared_ptr<arrow::RecordBatch> again_;  // whose step was
  std::shared_ptr<DatasetReader> reader_;
  std::optional<BatchRequest> next_;  // to be begun early
  std::shared_ptr<Begun> begun_;
};

// An epoch of mixed buffers has them from its beginning, of a size that stays.
BatchRequest Epochs::request_of(const Point& from, const EpochOptions& options) const {
  StreamState state = from.state;
  if (state.done == 0) {
    const std::optional<int64_t>& buffer = options.local_shuffle_buffer_size;
    state.buffer_rows = buffer ? std::max(*buffer, *options.batch_size) * share_.world_size : 0;
  }
  return {.epoch = from.epoch,
          .seed = seed_,
          .from = state,
          .options = {.batch_size = options.batch_size.value_or(0),
                      .rank = share_.rank,
                      .world_size = share_.world_size,
                      .equal = options.equal.value_or(share_.equal),
                      .drop_last = options.drop_last,
                      .prefetch_batches = options.prefetch_batches},
          .local_shuffle_seed = options.local_shuffle_seed,
          .threads = options.threads,
          .read_ahead_bytes = options.read_ahead_bytes};
}

arrow::Result<std::unique_ptr<RankBatches>> Epochs::begin(const EpochOptions& options,
                                                          std::shared_ptr<CountedSteps> steps) {
  ARROW_RETURN_NOT_OK(options.validate());
  Point from = place_->next;
  if (skipped_ && options.local_shuffle_buffer_size) {
    ARROW_ASSIGN_OR_RAISE(from.state, in_buffers(from.state, options));
  }
  const BatchRequest request = request_of(from, options);
  std::unique_ptr<RankBatches> batches = take_begun();
  if (batches != nullptr && begun_->home.is_here() && begun_->request == request) {
    batches->read();
  } else {
    batches.reset();
    ARROW_ASSIGN_OR_RAISE(batches, reader_->batches(request));
  }
  auto given =
      std::make_unique<Batches>(std::move(batches), Point{request.epoch, request.from}, place_, std::move(steps));
  place_->next = {.epoch = request.epoch + 1, .state = {}};
  resumed_ = false;
  skipped_ = false;
  if (begins_next(options)) given->begin_early(reader_, request_of(place_->next, options), begun_);
  return given;
}

bool Epochs::begins_next(const EpochOptions& options) {
  if (!options.begins_next || options.prefetch_batches == 0 || options.threads == 0) return false;
  if (options.local_shuffle_buffer_size) return false;  // its buffer would be there twice
  if (!calls_functions_) {
    const auto facts = reader_->facts();
    if (facts.ok()) calls_functions_ = facts->calls_functions;
  }
  return calls_functions_ && !*calls_functions_;
}

arrow::Status Epochs::skip(int64_t rows) {
  ARROW_ASSIGN_OR_RAISE(const StreamState state, reader_->skipped(place_->next.epoch, seed_, rows, place_->next.state));
  const bool is_all_skipped = skipped_ || place_->next.state == StreamState();
  const bool is_resumed = resumed_;
  begin_at({.epoch = place_->next.epoch, .state = state});
  skipped_ = is_all_skipped;
  resumed_ = is_resumed;
  return arrow::Status::OK();
}

// The state in which as many rows are passed over of an epoch that is mixed in buffers from its beginning.
arrow::Result<StreamState> Epochs::in_buffers(const StreamState& skipped, const EpochOptions& options) const {
  const int64_t rows = skipped.position.rows;
  const int64_t of_buffer = request_of({.epoch = place_->next.epoch, .state = {}}, options).from.buffer_rows;
  ARROW_ASSIGN_OR_RAISE(StreamState state, reader_->skipped(place_->next.epoch, seed_, rows - rows % of_buffer, {}));
  state.buffer_rows = of_buffer;
  state.buffer = rows / of_buffer;
  state.done = rows % of_buffer;
  return state;
}

arrow::Result<std::optional<int64_t>> Epochs::rows() const {
  ARROW_ASSIGN_OR_RAISE(const DatasetFacts facts, reader_->facts());
  if (!facts.counts_rows) return std::nullopt;
  return steps_of({.rows = facts.rows, .batch_size = 1, .world_size = share_.world_size, .equal = share_.equal},
                  share_.rank);
}

arrow::Result<Json> Epochs::state() const {
  ARROW_ASSIGN_OR_RAISE(const DatasetFacts facts, reader_->facts());
  const auto& [epoch, state] = place_->now();
  return Json(EpochState{.version = kStateVersion,
                         .fingerprint = facts.fingerprint,
                         .seed = seed_.value_or(facts.seed),
                         .epoch = epoch,
                         .rows = state.position.rows,
                         .window = state.position.window,
                         .row = state.position.row,
                         .buffer_rows = state.buffer_rows,
                         .buffer = state.buffer,
                         .done = state.done});
}

arrow::Status Epochs::load_state(const Json& json) {
  if (!json.is_object()) return arrow::Status::Invalid("this is no state of a dataset: ", readable_json(json));
  ARROW_ASSIGN_OR_RAISE(const EpochState state, epoch_state_of(json));
  if (state.version != kStateVersion) {
    return arrow::Status::Invalid("the state has version ", state.version, "; this is ", kStateVersion);
  }
  ARROW_ASSIGN_OR_RAISE(const DatasetFacts facts, reader_->facts());
  ARROW_RETURN_NOT_OK(check_same("fingerprint", state.fingerprint, facts.fingerprint));
  if (facts.seed_is_drawn) {
    seed_ = state.seed;
  } else {
    ARROW_RETURN_NOT_OK(check_same("seed", state.seed, facts.seed));
  }
  begin_at({.epoch = state.epoch,
            .state = {.position = {.rows = state.rows, .window = state.window, .row = state.row},
                      .buffer_rows = state.buffer_rows,
                      .buffer = state.buffer,
                      .done = state.done}});
  resumed_ = true;
  return arrow::Status::OK();
}

}  // namespace paceline::data
