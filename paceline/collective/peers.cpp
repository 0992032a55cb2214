#include "paceline/collective/peers.h"

#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <utility>

#include "paceline/core/posix/connections_of_forks.h"
#include "paceline/core/posix/kernel_file.h"
#include "paceline/core/posix/thread.h"

namespace paceline::collective {
namespace {

// About 50 µs where each rank has a processor.
constexpr int kSpins = 1500;

void pause_processor() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// The memory is shared with other processes, so none of the calls is FUTEX_PRIVATE.
void sleep_on(std::atomic<uint32_t>& bell, uint32_t heard, Deadline deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(deadline - std::chrono::steady_clock::now());
  if (left.count() <= 0) return;
  const timespec timeout{.tv_sec = left.count() / 1'000'000'000, .tv_nsec = left.count() % 1'000'000'000};
  ::syscall(SYS_futex, &bell, FUTEX_WAIT, heard, &timeout, nullptr, 0);
}

void wake(Bell& bell) {
  bell.rings.fetch_add(1);
  ::syscall(SYS_futex, &bell.rings, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void wake_all(Board& board) {
  wake(board.bell);
  wake(board.mail_bell);
}

int processors() {
  cpu_set_t set;
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

int place_of(const std::vector<int>& names, int64_t name) {
  return static_cast<int>(std::ranges::find(names, name) - names.begin());
}

int count_all(const std::vector<std::vector<int>>& nodes) {
  size_t ranks = 0;
  for (const auto& node : nodes) ranks += node.size();
  return static_cast<int>(ranks);
}

// "R", "S", "T", …; "" where there is no such process.
std::string kernel_state(int64_t process) {
  return parse_kernel_value(read_kernel_file("/proc/" + std::to_string(process) + "/status"), "State:");
}

}  // namespace

std::string state_of_process(int64_t process) {
  if (process <= 0) return "";
  const std::string state = kernel_state(process);
  if (state.empty() || state == "X" || state == "Z") return "has ended";
  if (state == "T" || state == "t") return "is stopped (a signal such as SIGSTOP, or a debugger)";
  return state == "D" ? "waits for a disk or a device" : "runs";
}

Peers::Peers(int rank, std::shared_ptr<Arena> own, Meeting meeting)
    : names_(meeting.ranks),
      rank_(place_of(names_, rank)),
      named_(count_all(meeting.nodes)),
      own_(std::move(own)),
      arenas_(meeting.ranks.size(), own_.get()),
      processes_(meeting.ranks.size(), 0),
      members_(std::move(meeting.members)),
      lost_(std::make_unique<std::atomic<bool>[]>(meeting.ranks.size())),
      stop_(::eventfd(0, EFD_CLOEXEC)) {
  if (!stop_) {
    throw CollectiveError("a group of ranks cannot be watched: " + errno_status("eventfd").message() +
                          ". Where too many files are open, raise the limit (ulimit -n)");
  }
  for (Member& member : members_) {
    member.rank = place_of(names_, member.rank);
    arenas_[static_cast<size_t>(member.rank)] = member.arena.get();
    processes_[static_cast<size_t>(member.rank)] = member.process;
    if (member.connection) ConnectionsOfForks::instance().add(member.connection.get());
  }
  spins_ = processors() >= size() ? kSpins : 0;
  watcher_ = start_thread([this] { watch(); });
}

Peers::~Peers() {
  const uint64_t one = 1;
  (void)!::write(stop_.get(), &one, sizeof one);
  watcher_.join();
  for (const Member& member : members_) {
    if (member.connection) ConnectionsOfForks::instance().remove(member.connection.get());
  }
  leave();
  own_->keep_no_more();  // tensors may outlive the group
}

void Peers::leave() const {
  Presence here = Presence::here;
  board().presence.compare_exchange_strong(here, Presence::left);
  for (const Member& member : members_) wake_all(member.arena->board());
}

void Peers::ring() const {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (const Member& member : members_) {
    Board& board = member.arena->board();
    if (board.bell.is_asleep.load(std::memory_order_relaxed) != 0) wake(board.bell);
  }
}

void Peers::ring_for_mail(int rank) const {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  Bell& bell = board_of(rank).mail_bell;
  if (bell.is_asleep.load(std::memory_order_relaxed) != 0) wake(bell);
}

void Peers::sleep_for_mail(uint32_t heard, Deadline deadline) const {
  sleep_on(board().mail_bell.rings, heard, deadline);
}

// What a debugger has stopped is not meant: somebody is looking at it.
bool Peers::is_stopped(int rank) const {
  return process_of(rank) > 0 && kernel_state(process_of(rank)) == "T";
}

Loss Peers::loss_of(int rank) const {
  if (rank == rank_) return {};
  // In this order: what a rank has written before it left counts.
  const bool is_lost = lost_[static_cast<size_t>(rank)];
  const Presence presence = board_of(rank).presence;
  if (presence == Presence::here && !is_lost) return {};
  const std::vector<int> missed = ranks_of(missed_by(board_of(rank)));
  if (!missed.empty()) {
    Loss loss{.why = "it has failed", .missing = {}};
    for (const int other : missed) loss.missing.push_back(name_of(other));
    loss.why += for_want_of(loss.missing);
    return loss;
  }
  const auto why = [&] {
    if (presence == Presence::left) return "it has left the group";
    if (presence == Presence::aborted) return "it has aborted";
    return presence == Presence::failed ? "it waits for this rank no more" : "its process has ended";
  };
  return {.why = why(), .missing = {name_of(rank)}};
}

// What a rank has told of others.
uint64_t Peers::missed_by(const Board& board) const {
  return board.missing & ~(uint64_t{1} << rank_);
}

std::vector<int> Peers::ranks_of(uint64_t bits) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < size(); ++rank) {
    if ((bits >> rank & 1U) != 0) ranks.push_back(rank);
  }
  return ranks;
}

void Peers::wake_own() const {
  wake_all(board());
}

template <class Lost>
void Peers::fail(const std::vector<int>& missing, const std::string& what, const std::string& why) const {
  std::vector<int64_t> names;
  for (const int rank : missing) names.push_back(name_of(rank));
  throw Lost(what + " failed on rank " + std::to_string(name_of(rank_)) + " of " + std::to_string(named_) +
                 for_want_of(names) + ": " + why,
             names);
}

// For other files of the module.
template void Peers::fail<PeerLost>(const std::vector<int>&, const std::string&, const std::string&) const;

void Peers::wait(const std::function<bool(const Board&)>& is_there, const WaitLimits& limits, const Waiting& waiting,
                 const std::string& what) {
  const auto all_there = [&] {
    return std::ranges::all_of(members_, [&](const Member& member) { return is_there(member.arena->board()); });
  };
  for (int spin = waiting > 0 ? spins_ : 0; spin >= 0; --spin) {
    if (all_there()) return;
    pause_processor();
  }
  sleep_until(all_there, is_there, limits, what);
}

void Peers::wait_for_own(const std::atomic<bool>& is_there, std::chrono::duration<double> patience,
                         const std::string& what) {
  sleep_until([&] { return is_there.load(); }, [](const Board&) { return false; }, {Deadline::max(), patience}, what);
}

// Throws when it cannot come to that, for want of a rank without `is_there`.
void Peers::sleep_until(const std::function<bool()>& is_enough, const std::function<bool(const Board&)>& is_there,
                        const WaitLimits& limits, const std::string& what) {
  Board& own = board();
  struct Asleep {  // whoever changes a board while it is set rings
    explicit Asleep(Bell& bell) : bell(bell) { bell.is_asleep = 1; }
    ~Asleep() { bell.is_asleep = 0; }
    Bell& bell;
  } const asleep(own.bell);
  const auto patience = std::chrono::ceil<Deadline::duration>(limits.patience);
  Deadline next_look = std::chrono::steady_clock::now() + patience;
  while (true) {
    const uint32_t heard = own.bell.rings;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (is_enough()) return;
    const Deadline now = std::chrono::steady_clock::now();
    check_missing(is_there, what, now >= limits.deadline);
    if (now >= next_look) {
      check_stopped(is_there, what);
      next_look = now + patience;
    }
    sleep_on(own.bell.rings, heard, std::min(limits.deadline, next_look));
  }
}

void Peers::check_stopped(const std::function<bool(const Board&)>& is_there, const std::string& what) const {
  std::vector<int> stopped;
  for (const Member& member : members_) {
    if (!is_there(member.arena->board()) && is_stopped(member.rank)) stopped.push_back(member.rank);
  }
  if (stopped.empty()) return;
  fail(stopped, what,
       stopped.size() == 1 ? "its process is stopped (a signal such as SIGSTOP)"
                           : "their processes are stopped (a signal such as SIGSTOP)");
}

void Peers::check_given_up(const std::function<bool(const Board&)>& is_there, const std::string& what) const {
  const bool is_any = std::ranges::any_of(members_, [&](const Member& member) {
    const Board& board = member.arena->board();
    // In this order: a rank may have ended well before it left or aborted.
    const Presence presence = board.presence;
    return presence != Presence::here && !is_there(board);
  });
  if (is_any) check_missing(is_there, what, /*is_late=*/false);
}

std::vector<int64_t> Peers::names_without(const std::function<bool(const Board&)>& is_there) const {
  std::vector<int64_t> names;
  for (const Member& member : members_) {
    if (!is_there(member.arena->board())) names.push_back(name_of(member.rank));
  }
  std::ranges::sort(names);
  return names;
}

void Peers::check_gone(const std::string& what, bool counts_left) const {
  const auto has_done_its_part = [counts_left](const Board& board) {
    return !counts_left && board.presence == Presence::left;
  };
  check_missing(has_done_its_part, what, /*is_late=*/false);
}

// Throws when a wait for `is_there` cannot end well, or `is_late`.
void Peers::check_missing(const std::function<bool(const Board&)>& is_there, const std::string& what,
                          bool is_late) const {
  if (aborted_)
    throw CollectiveError(what + " was aborted on rank " + std::to_string(name_of(rank_)), CollectiveCause::stopped);
  std::vector<int> ended, left, aborted, impatient, late;
  uint64_t told = 0;
  for (const Member& member : members_) {
    const Board& board = member.arena->board();
    // In this order: what a rank has done before it left counts.
    const bool is_lost = lost_[static_cast<size_t>(member.rank)];
    const Presence presence = board.presence;
    const uint64_t missed = missed_by(board);
    if (presence == Presence::aborted && missed == 0) aborted.push_back(member.rank);
    if (presence == Presence::aborted) told |= missed;
    if (is_there(board)) continue;
    if (presence == Presence::here && !is_lost) {
      late.push_back(member.rank);
    } else if (missed != 0) {
      told |= missed;
    } else if (presence == Presence::failed) {
      impatient.push_back(member.rank);
    } else if (presence == Presence::left) {
      left.push_back(member.rank);
    } else if (presence == Presence::here) {
      ended.push_back(member.rank);
    }
  }
  if (!ended.empty()) fail(ended, what, ended.size() == 1 ? "its process has ended" : "their processes have ended");
  for (const int rank : aborted) {
    const std::string reason = board_of(rank).reason.data();
    if (reason.empty()) continue;
    throw AbortedFor(what + " failed on rank " + std::to_string(name_of(rank_)) + " of " + std::to_string(named_) +
                         ": rank " + std::to_string(name_of(rank)) + " has aborted: " + reason,
                     reason);
  }
  if (!aborted.empty())
    fail(aborted, what,
         aborted.size() == 1 ? "it has aborted, or has destroyed its group before its works were over"
                             : "they have aborted, or have destroyed their groups before their works were over");
  if (told != 0) fail(ranks_of(told), what, "another rank has found this out");
  if (!impatient.empty()) {
    fail(impatient, what,
         std::string(impatient.size() == 1 ? "it waits" : "they wait") + " for this rank no more " + kTimeLimits);
  }
  if (!left.empty()) fail(left, what, left.size() == 1 ? "it has left the group" : "they have left the group");
  if (!is_late || late.empty()) return;
  std::string states;
  for (const int rank : late) {
    const std::string state = state_of_process(process_of(rank));
    if (!state.empty()) states += "; rank " + std::to_string(name_of(rank)) + "'s process " + state;
  }
  fail<PeerLate>(late, what,
                 std::string(late.size() == 1 ? "it has" : "they have") + " not come in time " + kTimeLimits + states +
                     ". The logs of the other ranks may say what keeps them");
}

void Peers::miss(const std::vector<int64_t>& missing) {
  uint64_t bits = 0;
  for (const int64_t name : missing) bits |= uint64_t{1} << place_of(names_, name);
  uint64_t nobody = 0;
  board().missing.compare_exchange_strong(nobody, bits);  // the first are the cause of what follows
}

bool Peers::may_carry_out(uint64_t number) const {
  if (board().announced.load(std::memory_order_acquire) < number) return false;
  bool may_anybody = false;
  for (const Member& member : members_) {
    const Board& board = member.arena->board();
    const bool is_lost = lost_[static_cast<size_t>(member.rank)];
    // Nobody begins before all have announced it.
    if (is_lost && board.announced.load(std::memory_order_acquire) < number) return false;
    const bool is_done = board.stage.load(std::memory_order_acquire) > number * kStages;
    may_anybody = may_anybody || (!is_lost && !is_done && board.presence != Presence::left);
  }
  return may_anybody;
}

void Peers::give_up(const std::vector<int64_t>& missing) {
  miss(missing);
  Presence here = Presence::here;
  const bool is_first = board().presence.compare_exchange_strong(here, Presence::failed);
  for (const Member& member : members_) wake_all(member.arena->board());
  if (is_first) tell_watchers();
}

void Peers::abort(const std::string& reason) {
  bool is_first = false;
  {
    const std::lock_guard lock(abort_mutex_);  // no reason is read before it is whole
    if (!aborted_.exchange(true) && reason.size() < kReasonBytes) {
      std::ranges::copy(reason, board().reason.begin());
    }
    Presence here = Presence::here;  // whoever has failed says still for want of whom
    is_first = board().presence.compare_exchange_strong(here, Presence::aborted);
  }
  wake_own();
  for (const Member& member : members_) wake_all(member.arena->board());
  if (is_first) tell_watchers();
}

void Peers::tell_watchers() const {
  const char word = '!';
  for (const Member& member : members_) {
    if (member.connection) (void)!::send(member.connection.get(), &word, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
  }
}

void Peers::when_given_up(std::function<void()> told) {
  const std::lock_guard lock(told_mutex_);
  told_ = std::move(told);
}

// Hears of the ends of the others' processes, and of those that say by a word that they have given up.
void Peers::watch() {
  const auto has_word = [](const pollfd& event) {
    char words[16];  // none comes from a pidfd; those of a process that has ended are read first
    return ::recv(event.fd, words, sizeof words, MSG_DONTWAIT) > 0;
  };
  std::vector<pollfd> events{{stop_.get(), POLLIN, 0}};
  std::vector<const Member*> of{nullptr};
  for (const Member& member : members_) {
    for (const Descriptor* descriptor : {&member.connection, &member.pidfd}) {
      if (!*descriptor) continue;
      events.push_back({descriptor->get(), POLLIN | POLLRDHUP, 0});
      of.push_back(&member);
    }
  }
  while (true) {
    if (::poll(events.data(), events.size(), -1) < 0) continue;
    if (events.front().revents != 0) return;
    for (size_t i = 1; i < events.size(); ++i) {
      if (events[i].revents == 0) continue;
      if (has_word(events[i])) {
        const std::lock_guard lock(told_mutex_);
        if (told_) told_();
        continue;
      }
      events[i].fd = -1;
      if (of[i]->arena->board().presence == Presence::left) continue;
      lost_[static_cast<size_t>(of[i]->rank)] = true;
      wake_own();
    }
  }
}

}  // namespace paceline::collective
