#include "paceline/collective/group.h"

#include <sys/uio.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "paceline/collective/execution.h"
#include "paceline/core/error.h"
#include "paceline/core/peer_lost.h"
#include "paceline/core/posix/thread.h"

namespace paceline::collective {

class Operation {
 public:
  Operation(Request request, uint64_t number)
      : request(std::move(request)),
        number(number),
        called(std::chrono::steady_clock::now()),
        deadline(called + this->request.timeout) {}

  Request request;
  const uint64_t number;
  Deadline called, deadline;   // of who carries it out: what has a gate is called when that opens
  std::exception_ptr failure;  // before is_over
  std::atomic<bool> is_over = false;
};

namespace {

// What a process has to read of another to show that it may.
constexpr uint64_t kMark = 0x70616365'6c696e65;

std::function<void()> ended(const Operation& operation) {
  return operation.request.on_end ? operation.request.on_end(operation.failure) : nullptr;
}

bool can_read(int64_t process, uint64_t address) {
  uint64_t found = 0;
  const iovec to{&found, sizeof found};
  const iovec from{reinterpret_cast<void*>(address), sizeof found};
  return process > 0 && ::process_vm_readv(static_cast<pid_t>(process), &to, 1, &from, 1, 0) == sizeof found &&
         found == kMark;
}

}  // namespace

std::shared_ptr<SharedGroup> SharedGroup::create(const Bulletin& bulletin, int rank, int world_size,
                                                 std::chrono::milliseconds timeout, bool may_read_others) {
  const RanksByNode found = meet(bulletin, rank, world_size, timeout, "", may_read_others);
  return found.nodes.size() == 1 ? found.node : nullptr;
}

RanksByNode SharedGroup::meet(const Bulletin& bulletin, int rank, int world_size, std::chrono::milliseconds timeout,
                              const std::string& node, bool may_read_others) {
  const auto said = [&](const arrow::Status& status) {
    return CollectiveError("rank " + std::to_string(rank) + " of " + std::to_string(world_size) +
                               " cannot share memory with the others: " + status.message(),
                           CollectiveCause::other_rank);
  };
  const int most = std::min(world_size, kMostRanks);
  auto own = Arena::create(heap_bytes(most), most);
  auto meeting = collective::meet(bulletin, rank, world_size, own, timeout, node);
  if (!meeting.ok()) throw said(meeting.status());
  if (!meeting->missing.empty()) return {.nodes = {}, .node = nullptr, .missing = std::move(meeting->missing)};
  auto nodes = meeting->nodes;
  auto group = make_shared_at_home<SharedGroup>(std::make_unique<Peers>(rank, *std::move(own), *std::move(meeting)));

  const uint64_t mark = kMark;
  const auto address = reinterpret_cast<uint64_t>(&mark);
  std::vector<uint64_t> addresses(static_cast<size_t>(group->size()));
  Request request{.kind = Kind::all_gather,
                  .what = {.element = Element::int64},
                  .elements = 1,
                  .input = &address,
                  .timeout = timeout};
  for (uint64_t& one : addresses) request.outputs.push_back(&one);
  group->wait(group->start(std::move(request)));
  uint8_t reads = may_read_others ? 1 : 0;
  for (int other = 0; other < group->size(); ++other) {
    if (other != group->rank() && !can_read(group->peers_->process_of(other), addresses[static_cast<size_t>(other)]))
      reads = 0;
  }
  group->wait(group->start({.kind = Kind::all_reduce,
                            .what = {.element = Element::uint8, .reduction = Reduction::min},
                            .elements = 1,
                            .input = &reads,
                            .outputs = {&reads},
                            .timeout = timeout}));
  group->reads_others_ = reads != 0;
  return {.nodes = std::move(nodes), .node = std::move(group), .missing = ""};
}

SharedGroup::SharedGroup(std::unique_ptr<Peers> peers)
    : peers_(std::move(peers)), mail_(std::make_unique<Mail>(*peers_)) {}

SharedGroup::~SharedGroup() {
  end();
}

void SharedGroup::end() {
  std::unique_lock lock(mutex_);
  is_ending_ = true;
  if (!queue_.empty()) peers_->abort("");
  work_.notify_all();
  while (!queue_.empty()) {  // whose end a worker may wait for
    if (is_driven_) {
      changed_.wait(lock);
    } else {
      run_front(lock);
    }
  }
  lock.unlock();
  for (std::thread& worker : std::exchange(workers_, {})) {
    if (worker.get_id() == std::this_thread::get_id()) {
      worker.detach();
      *is_gone_ = true;
    } else {
      worker.join();
    }
  }
}

void SharedGroup::refuse_forks(const char* operation) const {
  if (home_.is_here()) return;
  throw UsageError(std::string(operation) + " was called in a process that rank " + std::to_string(rank()) +
                   " has forked: a rank's collectives are its own process's");
}

Mail& SharedGroup::mail() {
  refuse_forks("send or recv");
  return *mail_;
}

std::shared_ptr<Operation> SharedGroup::start(Request request) {
  refuse_forks(to_string(request.kind));
  std::exception_ptr broken;
  std::shared_ptr<Operation> operation;
  {
    const std::lock_guard lock(mutex_);
    operation = std::make_shared<Operation>(std::move(request), called_ + 1);
    broken = broken_;
    if (!broken) {
      ++called_;
      queue_.push_back(operation);
      announce_ready();
      // The others may wait for this rank before its user does: for what does not fit a slot on some rank, which all
      // have to carry out, and for what it cannot show them yet.
      if (operation->request.may_be_large(size()) || operation->number > announced_) push_locked(*operation);
    }
  }
  if (broken) {
    operation->failure = broken;
    const auto rest = ended(*operation);
    operation->is_over = true;
    if (rest) rest();
  }
  return operation;
}

void SharedGroup::push(const std::shared_ptr<Operation>& operation) {
  const std::lock_guard lock(mutex_);
  push_locked(*operation);
}

void SharedGroup::push_locked(const Operation& operation) {
  if (operation.is_over) return;
  pushed_ = std::max(pushed_, operation.number);
  if (!is_driven_) call_worker();
}

// One who calls what `on_end` has returned may wait there for what is to be carried out now: then it takes another.
void SharedGroup::call_worker() {
  if (idle_workers_ > 0) return work_.notify_one();
  if (is_ending_) return;
  workers_.push_back(start_thread([this] { work(); }));
  ++idle_workers_;  // before it runs: who asks again meanwhile means it
}

bool SharedGroup::is_over(const Operation& operation) {
  return operation.is_over;
}

void SharedGroup::open(std::atomic<bool>& gate) {
  gate = true;
  peers_->wake_own();
}

void SharedGroup::wait(const std::shared_ptr<Operation>& operation) {
  if (!operation->is_over) {
    ++waiting_;
    std::unique_lock lock(mutex_);
    while (!operation->is_over) {
      if (is_driven_) {
        changed_.wait(lock);
      } else {
        run_front(lock);
      }
    }
    --waiting_;
  }
  if (operation->failure) std::rethrow_exception(operation->failure);
}

bool SharedGroup::wait_for(const std::shared_ptr<Operation>& operation, std::chrono::milliseconds time) {
  ++waiting_;
  std::unique_lock lock(mutex_);
  push_locked(*operation);  // whoever carries it out cannot leave
  const bool is_over = changed_.wait_for(lock, time, [&] { return operation->is_over.load(); });
  --waiting_;
  if (is_over && operation->failure) std::rethrow_exception(operation->failure);
  return is_over;
}

std::vector<int64_t> SharedGroup::awaited(uint64_t place) const {
  uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    if (queue_.empty()) return {};
    const Request& request = queue_.front()->request;
    if (!request.is_open() || request.place > place) return {};
    number = queue_.front()->number;
  }
  return peers_->names_without(
      [number](const Board& board) { return board.announced.load(std::memory_order_acquire) >= number; });
}

void SharedGroup::settle(const void* memory, uint64_t bytes) {
  settle([&](const Request& request) { return request.writes_to(memory, bytes); });
}

void SharedGroup::settle() {
  settle([](const Request&) { return true; });
}

void SharedGroup::settle(const std::function<bool(const Request&)>& is_meant) {
  refuse_forks("a collective");
  std::shared_ptr<Operation> last;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& operation : queue_) {
      if (is_meant(operation->request)) last = operation;
    }
  }
  if (!last) return;
  if (last->request.on_wait) last->request.on_wait();
  try {
    wait(last);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): who called it is told
  }
}

void SharedGroup::leave() {
  settle();
  peers_->leave();
}

void SharedGroup::abort(const std::string& reason) {
  if (!home_.is_here()) return;
  peers_->abort(reason);
  const std::lock_guard lock(mutex_);
  if (broken_) return;
  broken_ = std::make_exception_ptr(
      CollectiveError("the group was aborted on rank " + std::to_string(rank()) + " of " + std::to_string(size()),
                      CollectiveCause::stopped));
}

// --- announcing --------------------------------------------------------------------------------------------------

// Shows the others what has been called, as far as the window goes. With the mutex held.
void SharedGroup::announce_ready() {
  for (const auto& operation : queue_) {
    if (operation->number <= announced_) continue;
    const Request& request = operation->request;
    if (!request.is_open() || !has_room(operation->number) || awaits_earlier(request)) return;
    announce(*operation);
  }
}

// Whether nobody needs the place of the operation that had it before.
bool SharedGroup::has_room(uint64_t number) const {
  for (int rank = 0; rank < size(); ++rank) {
    const uint64_t stage = peers_->board_of(rank).stage.load(std::memory_order_acquire);
    if (number > kWindow && stage < (number - kWindow + 1) * kStages) return false;
  }
  return true;
}

// Whether what it gives is not there before another operation has ended.
bool SharedGroup::awaits_earlier(const Request& request) const {
  for (const auto& earlier : queue_) {
    if (&earlier->request == &request) return false;
    if (request.reads_results_of(earlier->request, size())) return true;
  }
  return false;
}

void SharedGroup::announce(const Operation& operation) {
  const Request& request = operation.request;
  const uint64_t place = operation.number % kWindow;
  Board& board = peers_->board();
  Announcement& call = board.announcements[place];
  call = {.call = request.fingerprint(),
          .whole = request.whole.value_or(request.fingerprint()),
          .bytes = request.input_bytes(size()),
          .address = reinterpret_cast<uint64_t>(request.input)};
  if (call.bytes > 0 && call.bytes <= kSlotBytes) {
    std::memcpy(peers_->arena()->slot(operation.number), request.input, call.bytes);
    call.is_in_slot = true;
  } else if (const auto offset = peers_->arena()->offset_of(request.input)) {
    call.offset = static_cast<int64_t>(*offset);
  }
  for (size_t rank = 0; rank < request.sends.size(); ++rank) board.parts[place][rank] = request.sends[rank];
  announced_ = operation.number;
  board.announced.store(announced_, std::memory_order_release);
  peers_->ring();
}

// --- carrying out ------------------------------------------------------------------------------------------------

// The first of the queue, from its announcement to its end. With the mutex held, which it gives back meanwhile: also
// while it lets go of what the operation holds. That may be a tensor of Python's, whose lock a thread may have that
// wants the mutex.
void SharedGroup::run_front(std::unique_lock<std::mutex>& lock, bool is_worker) {
  is_driven_ = true;
  const auto is_gone = is_gone_;  // what it calls in the end may destroy the group
  std::shared_ptr<Operation> operation = queue_.front();
  std::exception_ptr failure = broken_;
  WaitLimits limits{};
  if (!failure) {
    try {
      if (operation->request.gate) wait_at_gate(*operation, lock);
      limits = {operation->deadline, patience_.with(operation->request.kind)};
      if (operation->number > announced_) wait_for_room(*operation, limits, lock);
      lock.unlock();
      Execution(*peers_, operation->request, operation->number, reads_others_, limits, waiting_).run();
      peers_->board().stage.store((operation->number + 1) * kStages, std::memory_order_release);
      peers_->ring();
      pass("collective.ended");
    } catch (const PeerLost& lost) {
      // Of a part of a call who has called it finds the reason, and tells it.
      const bool is_told = operation->request.whole && dynamic_cast<const PeerLate*>(&lost) != nullptr;
      if (!is_told) peers_->give_up(lost.ranks());
      failure = std::current_exception();
    } catch (...) {
      failure = std::current_exception();
    }
  }
  if (lock.owns_lock()) lock.unlock();
  if (failure) take_out(*operation, limits);
  operation->failure = failure;
  auto rest = ended(*operation);
  operation->request.keeps.reset();
  lock.lock();
  if (failure) {
    broken_ = failure;
  } else {
    patience_.note(operation->request.kind, std::chrono::steady_clock::now() - operation->called);
  }
  queue_.pop_front();
  is_driven_ = false;
  operation->is_over = true;
  if (!queue_.empty()) {
    announce_ready();
    if (queue_.front()->number <= pushed_ && (rest || !is_worker)) call_worker();  // a worker goes on itself
  }
  changed_.notify_all();
  lock.unlock();
  operation.reset();
  if (rest) std::exchange(rest, nullptr)();
  if (!*is_gone) lock.lock();
}

// What the others reduce in all arenas they may write after this rank has given up: those that were stopped in its
// midst, or have not heard of it yet. What the user has there from now on is out of their reach.
void SharedGroup::take_out(const Operation& operation, const WaitLimits& limits) {
  const Request& request = operation.request;
  if (!peers_->may_carry_out(operation.number)) return;
  if (!Execution(*peers_, request, operation.number, reads_others_, limits, waiting_).is_reduced_in_place()) return;
  const auto offset = peers_->arena()->offset_of(request.input);
  if (offset && !peers_->arena()->take_out(*offset, request.input_bytes(size()))) {
    std::fprintf(stderr,
                 "paceline: rank %d has no address space left to copy a tensor of the collective that failed: a rank "
                 "that goes on with it may write there\n",
                 peers_->name_of(rank()));
  }
}

// Its timeout begins when it is open.
void SharedGroup::wait_at_gate(Operation& operation, std::unique_lock<std::mutex>& lock) {
  const Request& request = operation.request;
  lock.unlock();
  peers_->wait_for_own(*request.gate, Patience().with(request.kind), name_of(request, operation.number));
  lock.lock();
  operation.called = std::chrono::steady_clock::now();
  operation.deadline = operation.called + request.timeout;
  announce_ready();
}

void SharedGroup::wait_for_room(const Operation& operation, const WaitLimits& limits,
                                std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  const uint64_t wanted = (operation.number - kWindow + 1) * kStages;
  peers_->wait([wanted](const Board& board) { return board.stage.load(std::memory_order_acquire) >= wanted; }, limits,
               waiting_, name_of(operation.request, operation.number));
  lock.lock();
  announce_ready();
}

void SharedGroup::work() {
  const auto is_gone = is_gone_;
  std::unique_lock lock(mutex_);
  const auto has_work = [this] { return !is_driven_ && !queue_.empty() && queue_.front()->number <= pushed_; };
  while (true) {
    work_.wait(lock, [&] { return is_ending_ || has_work(); });
    --idle_workers_;
    if (is_ending_) return;
    run_front(lock, /*is_worker=*/true);
    if (*is_gone) return;
    ++idle_workers_;
  }
}

}  // namespace paceline::collective
