#include "paceline/collective/execution.h"

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

#include "paceline/collective/reduce.h"
#include "paceline/core/fail_point.h"
#include "paceline/core/peer_lost.h"

namespace paceline::collective {

void pass(const char* fail_point) {
  const arrow::Status status = paceline::fail_point(fail_point);
  if (!status.ok()) throw CollectiveError(status.message());
}

std::string name_of(const Request& request, uint64_t number) {
  return std::string(to_string(request.whole ? request.whole->kind : request.kind)) + " number " +
         std::to_string(request.shown_number(number));
}

Execution::Execution(Peers& peers, const Request& request, uint64_t number, bool reads_others, const WaitLimits& limits,
                     const Waiting& waiting)
    : peers_(peers),
      request_(request),
      number_(number),
      reads_others_(reads_others),
      limits_(limits),
      waiting_(waiting),
      what_(name_of(request, number)) {}

void Execution::run() {
  const uint64_t number = number_;
  pass("collective.announced");
  peers_.wait([number](const Board& board) { return board.announced.load(std::memory_order_acquire) >= number; },
              limits_, waiting_, what_);
  pass("collective.all_announced");
  compare();
  const auto all_parts = parts();
  check_receives(all_parts);
  const Needs needs = needs_of(request_, peers_.rank(), peers_.size(), all_parts);
  switch (way()) {
    case Way::published:
      take(needs);
      pass("collective.middle");
      break;
    case Way::where_it_is:
      if (request_.kind == Kind::all_reduce) {
        reduce_slices();
      } else {
        take(needs);
        pass("collective.middle");
        end_where_it_is();
      }
      break;
    case Way::in_pieces:
      run_in_pieces(needs);
      break;
  }
}

const Announcement& Execution::announcement(int rank) const {
  return peers_.board_of(rank).announcements[number_ % kWindow];
}

bool Execution::is_reduced_in_place() const {
  const Announcement& own = announcement(peers_.rank());
  if (request_.kind != Kind::all_reduce || own.is_in_slot || own.offset < 0) return false;
  for (int rank = 0; rank < peers_.size(); ++rank) {
    if (peers_.board_of(rank).announced.load(std::memory_order_acquire) < number_) return true;  // it may have it there
  }
  return is_same_call() && way() == Way::where_it_is;
}

bool Execution::is_same_call() const {
  const Announcement& own = announcement(peers_.rank());
  for (int rank = 0; rank < peers_.size(); ++rank) {
    const Announcement& other = announcement(rank);
    if (own.call != other.call || own.whole != other.whole) return false;
  }
  return true;
}

void Execution::compare() const {
  if (is_same_call()) return;
  std::map<std::string, std::string> callers;  // of each call
  for (int rank = 0; rank < peers_.size(); ++rank) {
    std::string& ranks = callers[announcement(rank).text()];
    ranks += (ranks.empty() ? "" : ", ") + std::to_string(peers_.name_of(rank));
  }
  std::string text;
  for (const auto& [call, ranks] : callers) {
    const bool is_one = ranks.find(',') == std::string::npos;
    text += (text.empty() ? "" : "; ") + std::string(is_one ? "rank " : "ranks ") + ranks +
            (is_one ? " calls " : " call ") + call;
  }
  throw CollectiveError("the ranks call different collectives as number " +
                        std::to_string(request_.shown_number(number_)) + " of their group: " + text +
                        ". Every rank has to call the same ones in the same order");
}

std::vector<std::vector<uint64_t>> Execution::parts() const {
  std::vector<std::vector<uint64_t>> all;
  if (request_.kind != Kind::all_to_all) return all;
  for (int rank = 0; rank < peers_.size(); ++rank) {
    const auto& parts = peers_.board_of(rank).parts[number_ % kWindow];
    all.emplace_back(parts.begin(), parts.begin() + peers_.size());
  }
  return all;
}

void Execution::check_receives(const std::vector<std::vector<uint64_t>>& parts) const {
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    const uint64_t sent = parts[rank][static_cast<size_t>(peers_.rank())];
    if (sent == request_.receives[rank]) continue;
    throw CollectiveError(what_ + ": rank " + std::to_string(peers_.name_of(rank)) + " sends " + std::to_string(sent) +
                          " bytes to rank " + std::to_string(peers_.name_of(peers_.rank())) + ", which wants " +
                          std::to_string(request_.receives[rank]));
  }
}

Execution::Way Execution::way() const {
  bool is_any_large = false, is_any_unmapped = false;
  for (int rank = 0; rank < peers_.size(); ++rank) {
    is_any_large = is_any_large || is_large(rank);
    is_any_unmapped = is_any_unmapped || (is_large(rank) && announcement(rank).offset < 0);
  }
  if (!is_any_large) return Way::published;
  // What the kernel reads for us is copied once, and what goes through staging memory twice, but within the caches: to
  // reduce it, which reads it anyway, that is faster (64 MiB on 2 ranks: 13 ms, by process_vm_readv() 25).
  const bool is_reduced =
      request_.kind == Kind::all_reduce || request_.kind == Kind::reduce || request_.kind == Kind::reduce_scatter;
  return is_any_unmapped && (is_reduced || !reads_others_) ? Way::in_pieces : Way::where_it_is;
}

void Execution::advance(uint64_t stage) {
  peers_.board().stage.store(number_ * kStages + stage, std::memory_order_release);
  peers_.ring();
}

void Execution::wait_for(uint64_t stage) {
  const uint64_t wanted = number_ * kStages + stage;
  peers_.wait([wanted](const Board& board) { return board.stage.load(std::memory_order_acquire) >= wanted; }, limits_,
              waiting_, what_);
}

// Ranks keep their inputs for each other until all have come so far, or they give up: what was read after that is not
// to be trusted. This rank may have been stopped for so long.
void Execution::end_where_it_is() {
  advance(1);
  wait_for(1);
  const uint64_t next = (number_ + 1) * kStages;
  peers_.check_given_up([next](const Board& board) { return board.stage.load(std::memory_order_acquire) >= next; },
                        what_);
}

// Where this process can read the input of that rank; null where it cannot.
const std::byte* Execution::mapped(int rank) const {
  if (rank == peers_.rank()) return static_cast<const std::byte*>(request_.input);
  const Announcement& call = announcement(rank);
  if (call.is_in_slot) return peers_.arena_of(rank).slot(number_);
  return call.offset >= 0 ? peers_.arena_of(rank).at(static_cast<uint64_t>(call.offset)) : nullptr;
}

void Execution::read(int rank, uint64_t begin, uint64_t bytes, std::byte* destination) const {
  const uint64_t address = announcement(rank).address + begin;
  for (uint64_t done = 0; done < bytes;) {
    const iovec to{destination + done, bytes - done};
    const iovec from{reinterpret_cast<void*>(address + done), bytes - done};
    const ssize_t got = ::process_vm_readv(static_cast<pid_t>(peers_.process_of(rank)), &to, 1, &from, 1, 0);
    if (got > 0) {
      done += static_cast<uint64_t>(got);
    } else if (errno != EINTR) {
      const std::string why = errno == ESRCH ? "its process has ended" : std::strerror(errno);
      peers_.check_gone(what_,
                        /*counts_left=*/true);  // it may have given up for want of another, and let its memory go
      peers_.fail({rank}, what_, "its memory cannot be read: " + why);
    }
  }
}

void Execution::copy(const Piece& piece) const {
  if (piece.bytes == 0) return;
  const std::byte* const source = mapped(piece.rank);
  if (source == nullptr) return read(piece.rank, piece.begin, piece.bytes, piece.destination);
  if (source + piece.begin == piece.destination) return;
  if (piece.bytes >= kPastCachesBytes) return copy_past_caches(piece.destination, source + piece.begin, piece.bytes);
  std::memcpy(piece.destination, source + piece.begin, piece.bytes);
}

// The same range of all inputs, all of which are mapped.
void Execution::reduce_range(uint64_t begin, uint64_t bytes, const std::vector<void*>& destinations) const {
  std::vector<const void*> sources;
  for (int rank = 0; rank < peers_.size(); ++rank) sources.push_back(mapped(rank) + begin);
  reduce(request_.what, sources.data(), sources.size(), destinations.data(), destinations.size(),
         bytes / size_of(request_.what.element));
}

void Execution::take(const Needs& needs) const {
  for (const Piece& piece : needs.pieces) copy(piece);
  if (needs.destination != nullptr && needs.bytes > 0) reduce_range(needs.begin, needs.bytes, {needs.destination});
}

// Each rank reduces a slice of all, in all arenas.
void Execution::reduce_slices() {
  const size_t value = size_of(request_.what.element);
  const int own = peers_.rank();
  const uint64_t begin = slice_begin(request_.elements, value, own, peers_.size()) * value;
  const uint64_t end = slice_begin(request_.elements, value, own + 1, peers_.size()) * value;
  std::vector<void*> destinations;
  for (int rank = 0; rank < peers_.size(); ++rank) {
    destinations.push_back(const_cast<std::byte*>(mapped(rank)) + begin);
  }
  if (begin < end) reduce_range(begin, end - begin, destinations);
  pass("collective.middle");
  end_where_it_is();
}

// All ranks see all pieces: one is written while the one before is read. Of a round, stage 2 r + 1 says that the rank's
// piece is there, 2 r + 2 that it has read those of the others.
void Execution::run_in_pieces(const Needs& needs) {
  uint64_t rounds = 0;
  for (int rank = 0; rank < peers_.size(); ++rank) {
    if (is_large(rank)) rounds = std::max(rounds, (announcement(rank).bytes + kStagingBytes - 1) / kStagingBytes);
  }
  const int own = peers_.rank();
  const uint64_t own_bytes = is_large(own) ? announcement(own).bytes : 0;
  for (const Piece& piece : needs.pieces) {
    if (piece.rank == own || !is_large(piece.rank)) copy(piece);
  }
  std::vector<const void*> sources(static_cast<size_t>(peers_.size()));
  for (uint64_t round = 0; round < rounds; ++round) {
    const uint64_t begin = round * kStagingBytes, end = begin + kStagingBytes;
    if (round >= kStagings) wait_for(2 * (round - kStagings) + 2);
    if (begin < own_bytes) {
      std::memcpy(peers_.arena()->staging(round), static_cast<const std::byte*>(request_.input) + begin,
                  std::min(end, own_bytes) - begin);
    }
    if (round == rounds / 2) pass("collective.middle");
    advance(2 * round + 1);
    wait_for(2 * round + 1);
    for (const Piece& piece : needs.pieces) {
      if (piece.rank == own || !is_large(piece.rank)) continue;
      const uint64_t from = std::max(begin, piece.begin), to = std::min(end, piece.begin + piece.bytes);
      if (from >= to) continue;
      std::memcpy(piece.destination + (from - piece.begin), peers_.arena_of(piece.rank).staging(round) + (from - begin),
                  to - from);
    }
    const uint64_t from = std::max(begin, needs.begin), to = std::min(end, needs.begin + needs.bytes);
    if (needs.destination != nullptr && from < to) {
      for (int rank = 0; rank < peers_.size(); ++rank) {
        sources[static_cast<size_t>(rank)] = peers_.arena_of(rank).staging(round) + (from - begin);
      }
      void* const destination = needs.destination + (from - needs.begin);
      reduce(request_.what, sources.data(), sources.size(), &destination, 1,
             (to - from) / size_of(request_.what.element));
    }
    advance(2 * round + 2);
  }
  if (rounds > 0) wait_for(2 * rounds);
}

}  // namespace paceline::collective
