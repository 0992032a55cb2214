#include "paceline/collective/mail.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

#include "paceline/core/bytes_text.h"
#include "paceline/core/fail_point.h"
#include "paceline/core/peer_lost.h"
#include "paceline/core/posix/memory_limit.h"
#include "paceline/core/posix/thread.h"

namespace paceline::collective {
namespace {

// `bytes` from or to the ring at `position`, which may go on at its beginning.
void write_ring(std::byte* ring, uint64_t position, const std::byte* from, uint64_t bytes) {
  if (bytes == 0) return;
  const uint64_t begin = position % kMailBytes;
  const uint64_t first = std::min<uint64_t>(bytes, kMailBytes - begin);
  std::memcpy(ring + begin, from, first);
  std::memcpy(ring, from + first, bytes - first);
}

void read_ring(const std::byte* ring, uint64_t position, std::byte* to, uint64_t bytes) {
  if (bytes == 0) return;
  const uint64_t begin = position % kMailBytes;
  const uint64_t first = std::min<uint64_t>(bytes, kMailBytes - begin);
  std::memcpy(to, ring + begin, first);
  std::memcpy(to + first, ring, bytes - first);
}

std::string name_of(const Letter& letter, const char* what) {
  return std::string(what) + (letter.rank < 0 ? " any rank" : " rank " + std::to_string(letter.rank)) + " (tag " +
         std::to_string(letter.tag) + ", " + std::to_string(letter.bytes) + " bytes)";
}

}  // namespace

Mail::Mail(Peers& peers)
    : peers_(peers), outgoing_(static_cast<size_t>(peers.size())), incoming_(static_cast<size_t>(peers.size())) {}

Mail::~Mail() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  if (thread_.joinable()) {
    look();
    thread_.join();
  }
  std::unique_lock lock(mutex_);
  fail_all(std::make_exception_ptr(CollectiveError("the group has ended", CollectiveCause::stopped)));
  tell(lock);
}

void Mail::set_patience(Patience::Duration patience) {
  const std::lock_guard lock(mutex_);
  patience_ = patience;
}

void Mail::send(std::shared_ptr<Letter> letter) {
  std::unique_lock lock(mutex_);
  if (broken_) {
    ended_.push_back({std::move(letter), broken_});
    return tell(lock);
  }
  letter->next_look = std::chrono::steady_clock::now() + std::chrono::ceil<Deadline::duration>(patience_);
  const int rank = letter->rank;
  outgoing_[static_cast<size_t>(rank)].letters.push_back(std::move(letter));
  push_out(rank);
  start_thread_once();
  tell(lock);
}

void Mail::receive(std::shared_ptr<Letter> letter) {
  std::unique_lock lock(mutex_);
  if (broken_) {
    ended_.push_back({std::move(letter), broken_});
    return tell(lock);
  }
  letter->next_look = std::chrono::steady_clock::now() + std::chrono::ceil<Deadline::duration>(patience_);
  if (!serve_early(letter)) awaited_.push_back(std::move(letter));
  start_thread_once();
  tell(lock);
}

void Mail::start_thread_once() {
  if (!thread_.joinable() && !is_ending_) thread_ = start_thread([this] { work(); });
  if (!is_idle()) look();
}

bool Mail::is_idle() const {
  return awaited_.empty() && std::ranges::all_of(outgoing_, [](const Outgoing& one) { return one.letters.empty(); });
}

// As much of what goes to that rank as there is room for. Whether there was something.
bool Mail::push_out(int rank) {
  Outgoing& out = outgoing_[static_cast<size_t>(rank)];
  MailWay& way = peers_.board().mail[static_cast<size_t>(rank)];
  std::byte* const ring = peers_.arena()->mail_to(rank);
  bool has_moved = false;
  while (!out.letters.empty()) {
    const std::shared_ptr<Letter> letter = out.letters.front();
    const uint64_t written = way.written.load(std::memory_order_relaxed);
    const uint64_t room = kMailBytes - (written - way.taken.load(std::memory_order_acquire));
    uint64_t moved = 0;
    if (out.done == 0) {
      if (room < sizeof(Head)) break;
      const Head head{.bytes = letter->bytes, .tag = letter->tag};
      write_ring(ring, written, reinterpret_cast<const std::byte*>(&head), sizeof head);
      moved = sizeof head;
    }
    const uint64_t sent = out.done == 0 ? 0 : out.done - sizeof(Head);
    const uint64_t part = std::min(letter->bytes - sent, room - moved);
    write_ring(ring, written + moved, letter->memory + sent, part);
    moved += part;
    if (moved == 0) break;
    out.done += moved;
    has_moved = true;
    way.written.store(written + moved, std::memory_order_release);
    peers_.ring_for_mail(rank);
    (void)fail_point("mail.sent");
    if (out.done < sizeof(Head) + letter->bytes) continue;
    out.done = 0;
    out.letters.pop_front();
    ended_.push_back({letter, nullptr});
  }
  return has_moved;
}

// The first that waits for it.
std::shared_ptr<Letter> Mail::taker_of(int rank, int64_t tag) {
  const auto taker = std::ranges::find_if(awaited_, [&](const std::shared_ptr<Letter>& one) {
    return (one->rank == rank || one->rank < 0) && one->tag == tag;
  });
  if (taker == awaited_.end()) return nullptr;
  std::shared_ptr<Letter> letter = *taker;
  awaited_.erase(taker);
  return letter;
}

bool Mail::is_wanted(int rank) const {
  return std::ranges::any_of(awaited_, [&](const auto& one) { return one->rank == rank || one->rank < 0; });
}

void Mail::deliver(const std::shared_ptr<Letter>& letter, int rank, uint64_t bytes) {
  std::exception_ptr failure;
  if (bytes != letter->bytes) {
    failure = std::make_exception_ptr(
        CollectiveError("rank " + std::to_string(rank) + " has sent " + std::to_string(bytes) + " bytes with the tag " +
                        std::to_string(letter->tag) + " to rank " + std::to_string(peers_.rank()) + ", which wants " +
                        std::to_string(letter->bytes)));
  }
  letter->rank = rank;
  ended_.push_back({letter, failure});
}

// For the message that comes from that rank and that nobody awaits; false: there is none, and mail has ended.
bool Mail::make_room(int rank) {
  Incoming& in = incoming_[static_cast<size_t>(rank)];
  const uint64_t bytes = in.head.bytes;
  try {
    // Small ones are not worth the look, but many together are.
    const bool is_looked_at = early_unseen_ + bytes > kMailBytes;
    if (!is_looked_at || static_cast<uint64_t>(memory_left().bytes) >= bytes + kMailBytes) {
      early_unseen_ = is_looked_at ? 0 : early_unseen_ + bytes;
      in.early.push_back({in.head.tag, std::vector<std::byte>(bytes)});
      return true;
    }
  } catch (const std::bad_alloc&) {  // told below
  } catch (const std::length_error&) {
  }
  const MemoryLeft left = memory_left();
  peers_.give_up({});
  fail_all(std::make_exception_ptr(CollectiveError(
      "a message from rank " + std::to_string(peers_.name_of(rank)) + " (tag " + std::to_string(in.head.tag) +
      ") does not fit on rank " + std::to_string(peers_.name_of(peers_.rank())) + ", which has not asked for it yet: " +
      "wanted " + bytes_text(static_cast<int64_t>(bytes)) + ", got " + bytes_text(left.bytes) + ", which is what " +
      left.owner + " has left. Receive it before others, into memory of your own")));
  return false;
}

// What has come from that rank. What nobody has asked for stays where it is, unless it keeps back what somebody has.
bool Mail::take_in(int rank) {
  Incoming& in = incoming_[static_cast<size_t>(rank)];
  MailWay& way = peers_.board_of(rank).mail[static_cast<size_t>(peers_.rank())];
  const std::byte* const ring = peers_.arena_of(rank).mail_to(peers_.rank());
  bool has_moved = false;
  while (in.has_head || is_wanted(rank)) {
    const uint64_t taken = way.taken.load(std::memory_order_relaxed);
    const uint64_t there = way.written.load(std::memory_order_acquire) - taken;
    uint64_t moved = 0;
    if (!in.has_head) {
      if (there < sizeof(Head)) break;
      read_ring(ring, taken, reinterpret_cast<std::byte*>(&in.head), sizeof in.head);
      in.has_head = true;
      in.done = 0;
      in.letter = taker_of(rank, in.head.tag);
      if (in.letter == nullptr && !make_room(rank)) return has_moved;
      moved = sizeof in.head;
    }
    const uint64_t part = std::min(in.head.bytes - in.done, there - moved);
    if (in.letter == nullptr) {
      read_ring(ring, taken + moved, in.early.back().content.data() + in.done, part);
    } else if (in.done < in.letter->bytes) {  // a message that is too long is read to its end all the same
      read_ring(ring, taken + moved, in.letter->memory + in.done, std::min(part, in.letter->bytes - in.done));
    }
    in.done += part;
    moved += part;
    if (moved == 0) break;
    has_moved = true;
    way.taken.store(taken + moved, std::memory_order_release);
    peers_.ring_for_mail(rank);
    (void)fail_point("mail.taken");
    if (in.done < in.head.bytes) continue;
    in.has_head = false;
    if (in.letter != nullptr) {
      deliver(std::exchange(in.letter, nullptr), rank, in.head.bytes);
    } else if (const auto letter = taker_of(rank, in.head.tag)) {  // it was asked for meanwhile
      awaited_.push_front(letter);
      if (serve_early(letter)) awaited_.pop_front();
    }
  }
  return has_moved;
}

// Gives `letter` what has come before, if it has come whole.
bool Mail::serve_early(const std::shared_ptr<Letter>& letter) {
  for (int rank = 0; rank < peers_.size(); ++rank) {
    if (letter->rank >= 0 && letter->rank != rank) continue;
    Incoming& in = incoming_[static_cast<size_t>(rank)];
    const auto found = std::ranges::find_if(in.early, [&](const Early& early) { return early.tag == letter->tag; });
    if (found == in.early.end()) continue;
    const bool is_coming = in.has_head && in.letter == nullptr && std::next(found) == in.early.end();
    if (is_coming) continue;
    const uint64_t bytes = found->content.size();
    if (const uint64_t part = std::min(letter->bytes, bytes); part > 0) {
      std::memcpy(letter->memory, found->content.data(), part);
    }
    in.early.erase(found);
    deliver(letter, rank, bytes);
    return true;
  }
  return false;
}

std::vector<Loss> Mail::losses() const {
  std::vector<Loss> all;
  for (int rank = 0; rank < peers_.size(); ++rank) all.push_back(peers_.loss_of(rank));
  return all;
}

// Those whose other rank was gone before the last look at what has come, and those whose time is over.
void Mail::fail_lost(const std::vector<Loss>& losses) {
  const auto now = std::chrono::steady_clock::now();
  if (peers_.is_aborted()) {
    return fail_all(std::make_exception_ptr(
        CollectiveError("the group was aborted on rank " + std::to_string(peers_.rank()), CollectiveCause::stopped)));
  }
  // Of a letter from whoever sends first: when nobody is left.
  const auto loss_of = [&](const Letter& letter) -> Loss {
    const auto loss_of_rank = [&](int rank) -> Loss {
      const Loss& loss = losses[static_cast<size_t>(rank)];
      if (!loss.why.empty() || now < letter.next_look || !peers_.is_stopped(rank)) return loss;
      return {.why = "its process is stopped (a signal such as SIGSTOP)", .missing = {peers_.name_of(rank)}};
    };
    if (letter.rank >= 0) return loss_of_rank(letter.rank);
    Loss all;
    std::set<int64_t> missing;
    for (int rank = 0; rank < peers_.size(); ++rank) {
      if (rank == peers_.rank()) continue;
      const Loss loss = loss_of_rank(rank);
      if (loss.why.empty()) return {};
      all.why = loss.why;
      missing.insert(loss.missing.begin(), loss.missing.end());
    }
    all.missing.assign(missing.begin(), missing.end());
    return all;
  };
  const auto fail = [&](Letter& letter, const char* what) {
    Loss loss = loss_of(letter);
    if (now >= letter.next_look) letter.next_look = now + std::chrono::ceil<Deadline::duration>(patience_);
    const bool is_late = loss.why.empty() && now >= letter.deadline;
    if (is_late) {
      loss.why = "it has not come in time (TorchConfig.timeout_s, or the group's own timeout)";
      if (letter.rank >= 0) loss.missing = {peers_.name_of(letter.rank)};
    }
    if (loss.why.empty() || broken_) return;
    is_late ? peers_.miss(loss.missing) : peers_.give_up(loss.missing);
    broken_ = std::make_exception_ptr(PeerLost(
        name_of(letter, what) + " failed on rank " + std::to_string(peers_.rank()) + ": " + loss.why, loss.missing));
  };
  for (const Outgoing& out : outgoing_) {
    if (!out.letters.empty()) fail(*out.letters.front(), "sending to");
  }
  for (const auto& letter : awaited_) fail(*letter, "receiving from");
  for (const Incoming& in : incoming_) {
    if (in.letter != nullptr) fail(*in.letter, "receiving from");
  }
  if (broken_) fail_all(broken_);
}

void Mail::fail_all(const std::exception_ptr& failure) {
  broken_ = failure;
  for (Outgoing& out : outgoing_) {
    for (auto& letter : std::exchange(out.letters, {})) ended_.push_back({letter, failure});
  }
  for (auto& letter : std::exchange(awaited_, {})) ended_.push_back({letter, failure});
  for (Incoming& in : incoming_) {
    if (in.letter != nullptr) ended_.push_back({std::exchange(in.letter, nullptr), failure});
  }
}

Deadline Mail::next_deadline() const {
  Deadline next = std::chrono::steady_clock::now() + std::chrono::hours(1);
  const auto next_of = [&](const Letter& letter) { return std::min({next, letter.deadline, letter.next_look}); };
  for (const Outgoing& out : outgoing_) {
    if (!out.letters.empty()) next = next_of(*out.letters.front());
  }
  for (const auto& letter : awaited_) next = next_of(*letter);
  for (const Incoming& in : incoming_) {
    if (in.letter != nullptr) next = next_of(*in.letter);
  }
  return next;
}

void Mail::tell(std::unique_lock<std::mutex>& lock) {
  std::vector<Ended> ended = std::exchange(ended_, {});
  lock.unlock();
  for (const auto& [letter, failure] : ended) {
    if (letter->on_end) letter->on_end(failure);
    letter->keeps.reset();
  }
  ended.clear();  // without the lock: what letters hold may be Python's
  lock.lock();
}

void Mail::work() {
  Bell& bell = peers_.board().mail_bell;
  std::unique_lock lock(mutex_);
  while (!is_ending_) {
    const uint32_t heard = bell.rings;
    bell.is_asleep = 1;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const std::vector<Loss> lost = losses();  // before the look: what they have sent is there
    bool has_moved = false;
    for (int rank = 0; rank < peers_.size() && !broken_; ++rank) {
      has_moved |= push_out(rank);
      has_moved |= take_in(rank);
    }
    if (!has_moved) {
      (void)fail_point("mail.nothing_new");
      fail_lost(lost);
    }
    if (!ended_.empty()) {
      tell(lock);
      continue;
    }
    if (has_moved) continue;
    const Deadline deadline = next_deadline();
    lock.unlock();
    peers_.sleep_for_mail(heard, deadline);
    lock.lock();
  }
  bell.is_asleep = 0;
}

}  // namespace paceline::collective
