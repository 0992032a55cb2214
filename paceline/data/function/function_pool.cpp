#include "paceline/data/function/function_pool.h"

#include <arrow/record_batch.h>
#include <arrow/util/byte_size.h>

#include <algorithm>
#include <utility>

#include "paceline/core/notice.h"
#include "paceline/core/posix/sealed_memory.h"
#include "paceline/data/function/block_transfer.h"
#include "paceline/data/function/function_connection_internal.h"
#include "paceline/data/operator/durations.h"

namespace paceline::data {
namespace {

using Block = arrow::Result<std::shared_ptr<arrow::RecordBatch>>;

std::string in_words(const std::optional<ExitStatus>& status) {
  return status ? describe(*status) : "ended, nobody knows how";
}

}  // namespace

FunctionPool::FunctionPool(std::shared_ptr<FunctionProcesses> processes, FunctionPoolOptions options)
    : processes_(std::move(processes)),
      memory_(options.memory),
      slow_after_(options.slow_after),
      // For each process a block on its way there and one on its way back, and as many that are read meanwhile.
      regions_(4 * options.variables.size()) {
  for (auto& variables : options.variables)
    seats_.push_back({.variables = std::move(variables), .connection = nullptr});
}

FunctionPool::~FunctionPool() {
  std::unique_lock lock(mutex_);
  stopped_ = true;
  for (const Seat& seat : seats_) {
    if (seat.is_taken && seat.connection != nullptr) seat.connection->kill();
  }
  changed_.notify_all();
  changed_.wait(lock, [&] { return calls_ == 0; });
}

arrow::Result<int64_t> FunctionPool::add(std::string name, std::string_view code) {
  ARROW_ASSIGN_OR_RAISE(Descriptor memory, SealedMemory::create("paceline function", {code}));
  const std::lock_guard lock(mutex_);
  functions_[++last_function_] = std::make_shared<const Function>(std::move(name), std::move(memory));
  return last_function_;
}

void FunctionPool::remove(int64_t function) {
  if (!home_.is_here()) return;
  std::vector<std::shared_ptr<FunctionConnection>> ended;  // go without the lock
  const std::lock_guard lock(mutex_);
  functions_.erase(function);
  if (!functions_.empty()) return;
  for (Seat& seat : seats_) {
    if (!seat.is_taken) ended.push_back(std::exchange(seat.connection, nullptr));
  }
}

std::vector<pid_t> FunctionPool::pids() const {
  const std::lock_guard lock(mutex_);
  std::vector<pid_t> pids;
  for (const Seat& seat : seats_) {
    if (seat.connection != nullptr) pids.push_back(seat.connection->pid());
  }
  return pids;
}

// Where this thread stands in a pool. One at a time for each pool.
class FunctionPool::Place {
 public:
  // The caller has the mutex.
  explicit Place(FunctionPool& pool) : pool_(pool), turn_(pool.turns_.insert(pool.turns_.end(), Turn())) {
    of_this_thread_.push_back(this);
  }
  // The caller has the mutex, or nobody.
  void leave() {
    pool_.turns_.erase(turn_);
    std::erase(of_this_thread_, this);
  }
  static Place* in(const FunctionPool& pool) {
    const auto found = std::ranges::find(of_this_thread_, &pool, [](const Place* place) { return &place->pool_; });
    return found == of_this_thread_.end() ? nullptr : *found;
  }
  Turns::iterator turn() const { return turn_; }

 private:
  static thread_local std::vector<Place*> of_this_thread_;
  FunctionPool& pool_;
  const Turns::iterator turn_;
};

thread_local std::vector<FunctionPool::Place*> FunctionPool::Place::of_this_thread_;

std::shared_ptr<const void> FunctionPool::line_up(const std::shared_ptr<FunctionPool>& pool) {
  if (!pool->home_.is_here() || Place::in(*pool) != nullptr) return nullptr;
  const std::lock_guard lock(pool->mutex_);
  return {new Place(*pool), [pool](const Place* place) {
            {
              const std::lock_guard leaving(pool->mutex_);
              const_cast<Place*>(place)->leave();
            }
            pool->changed_.notify_all();
            delete place;
          }};
}

// As many seats are free as those need who stand before this one, and one more.
bool FunctionPool::is_my_turn(Turns::iterator mine, bool is_patient) const {
  const auto is_before = [&](const Turn& turn) { return turn.is_waiting || (is_patient && turn.is_coming); };
  const auto before = std::count_if(turns_.begin(), Turns::const_iterator(mine), is_before);
  return std::ranges::count(seats_, false, &Seat::is_taken) > before;
}

// How long a free seat may be left to a thread that is still to come. It may wait for this one: that is the reason for
// an end, and a seat that is left for longer than a call takes does more harm than good.
std::chrono::nanoseconds FunctionPool::patience() const {
  using std::chrono::milliseconds;
  if (called_ == 0) return std::chrono::seconds(1);
  return std::clamp<std::chrono::nanoseconds>(called_for_ / called_, milliseconds(20), std::chrono::seconds(1));
}

// A process that nobody has: one that knows the function, another one, or a new one; waits for one that is free.
arrow::Result<FunctionPool::Seat*> FunctionPool::take_seat(int64_t function) {
  const auto rank = [&](const Seat& seat) {
    if (seat.is_taken) return 0;
    if (seat.connection == nullptr) return 1;
    return seat.connection->knows_function(function) ? 3 : 2;
  };
  std::unique_lock lock(mutex_);
  std::optional<Place> own;
  if (Place::in(*this) == nullptr) own.emplace(*this);
  const Turns::iterator turn = Place::in(*this)->turn();
  turn->is_coming = false;
  turn->is_waiting = true;
  {
    const Waiting waiting;
    const auto end = std::chrono::steady_clock::now() + patience();
    const auto is_patient = [&] { return std::chrono::steady_clock::now() < end; };
    const auto may_go_on = [&] { return stopped_ || is_my_turn(turn, is_patient()); };
    changed_.wait_until(lock, end, may_go_on);
    changed_.wait(lock, may_go_on);
  }
  turn->is_waiting = false;
  if (own) own->leave();
  const auto best = std::ranges::max_element(seats_, {}, rank);
  if (stopped_) return arrow::Status::Cancelled("the processes that call functions are ending");
  best->is_taken = true;
  if (best->connection != nullptr) return &*best;
  lock.unlock();
  auto process = processes_->start(best->variables);
  lock.lock();
  if (process.ok() && !stopped_) {
    best->connection = std::make_shared<FunctionConnection>(*std::move(process));
    return &*best;
  }
  best->is_taken = false;
  changed_.notify_all();
  ARROW_RETURN_NOT_OK(process.status());
  return arrow::Status::Cancelled("the processes that call functions are ending");
}

void FunctionPool::leave(Seat& seat, bool lives) {
  std::shared_ptr<FunctionConnection> ended;  // goes without the lock
  {
    const std::lock_guard lock(mutex_);
    if (!lives || functions_.empty()) ended = std::exchange(seat.connection, nullptr);
    seat.is_taken = false;
  }
  changed_.notify_all();
}

Block FunctionPool::call(int64_t number, const std::shared_ptr<arrow::RecordBatch>& block, uint64_t key) {
  if (!home_.is_here()) {
    return arrow::Status::Invalid("processes that call functions belong to the process that started them, ",
                                  home_.pid(), "; this is a fork of it");
  }
  std::shared_ptr<const Function> function;
  {
    const std::lock_guard lock(mutex_);
    const auto found = functions_.find(number);
    if (found == functions_.end()) return arrow::Status::Invalid("there is no function ", number);
    function = found->second;
    ++calls_;
  }
  Block made = try_twice(number, *function, *block, key);
  const std::lock_guard lock(mutex_);
  --calls_;
  changed_.notify_all();
  return made;
}

Block FunctionPool::try_twice(int64_t number, const Function& function, const arrow::RecordBatch& block, uint64_t key) {
  const int64_t size = arrow::util::ReferencedBufferSize(block).ValueOr(0);
  ARROW_ASSIGN_OR_RAISE(const auto input, regions_.take(size));
  ARROW_ASSIGN_OR_RAISE(const int64_t input_bytes, write_block(block, *input));
  std::string before;
  size_t lost = 0;
  while (true) {
    ARROW_ASSIGN_OR_RAISE(const auto output, regions_.take(size));
    ARROW_ASSIGN_OR_RAISE(Seat* const seat, take_seat(number));
    if (seat->connection->has_ended()) {
      leave(*seat, false);
      continue;
    }
    FunctionCall call{.function = number, .key = key, .input_bytes = input_bytes};
    note_what_is_gone(*seat->connection, call);
    const FunctionWatch watch{.memory = memory_, .slow_after = slow_after_, .is_slow = [&] {
                                tell_slow(function, block, *seat->connection);
                              }};
    const auto begin = std::chrono::steady_clock::now();
    auto answer = seat->connection->call(std::move(call), function.code, *input, *output, watch);
    {
      const std::lock_guard lock(mutex_);
      called_for_ += std::chrono::steady_clock::now() - begin;
      ++called_;
    }
    const auto* const died = answer.ok() ? std::get_if<FunctionAnswer::Died>(&answer->what) : nullptr;
    leave(*seat, answer.ok() && died == nullptr);
    ARROW_RETURN_NOT_OK(answer.status());
    if (const auto* const made = std::get_if<FunctionMade>(&answer->what)) {
      if (made->keeps_input) regions_.retire(*input);
      return read_made(*made, answer->bytes, block, output);
    }
    if (const auto* const raised = std::get_if<FunctionRaised>(&answer->what)) {
      if (raised->keeps_input) regions_.retire(*input);
      return arrow::Status(arrow::StatusCode::UnknownError, function.name + " raised " + raised->text,
                           std::make_shared<FunctionRaisedDetail>(std::move(answer->bytes), raised->traceback));
    }
    regions_.retire(*output);  // nobody knows what the process was writing there
    {
      const std::lock_guard lock(mutex_);
      if (stopped_) return arrow::Status::Cancelled("the processes that call functions are ending");
    }
    if (died->memory > 0) {
      return arrow::Status::OutOfMemory(function.name, ": the process that called it held ", died->memory >> 20,
                                        " MiB of memory, more than the ", memory_ >> 20,
                                        " MiB of memory=…, and was ended. Allow it more, or give it smaller batches");
    }
    // One of which nobody knows how it has ended went with all the others: not for what it was called with.
    if (!died->status && ++lost <= seats_.size()) continue;
    if (!before.empty()) {
      return arrow::Status::ExecutionError(function.name, ": the process that called it ", before,
                                           ", and with the same rows a second one ", in_words(died->status));
    }
    before = in_words(died->status);
  }
}

void FunctionPool::tell_slow(const Function& function, const arrow::RecordBatch& block,
                             FunctionConnection& connection) const {
  notice(function.name + " has been at a block of " + std::to_string(block.num_rows()) + " rows for " +
         std::to_string(std::chrono::duration_cast<std::chrono::seconds>(slow_after_).count()) + " s, in process " +
         std::to_string(connection.pid()) + ", which is waited for; where it is:");
  connection.show_stack();
}

void FunctionPool::note_what_is_gone(const FunctionConnection& connection, FunctionCall& call) const {
  for (const int64_t region : connection.regions()) {
    if (!regions_.has(region)) call.gone_regions.push_back(region);
  }
  const std::lock_guard lock(mutex_);
  for (const int64_t function : connection.functions()) {
    if (!functions_.contains(function)) call.gone_functions.push_back(function);
  }
}

}  // namespace paceline::data
