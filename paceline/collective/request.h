// A collective as one rank calls it: what is asked for, and what of the others' inputs that needs. Pure data.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "paceline/collective/board.h"

namespace paceline::collective {

/// What a rank calls. Memory is the caller's, and stays until the operation is over (`keeps`).
struct Request {
  Kind kind = Kind::barrier;
  Reduce what;
  int root = -1;
  uint64_t elements = 0;  ///< of the input of one rank; of scatter and reduce_scatter, of the output
  uint64_t number = 0;    ///< as errors and ledgers have it; 0: that of the group
  /// What this rank gives, contiguous: of scatter (at the root), reduce_scatter and all_to_all the parts of all ranks
  /// in their order. Null where it gives nothing.
  const void* input = nullptr;
  /// Where the result goes; of all_gather, gather (at the root) and all_to_all, one for each rank. Empty where this
  /// rank gets nothing. all_reduce is in place: its output is its input.
  std::vector<void*> outputs;
  /// Of all_to_all: bytes for each rank, and from each.
  std::vector<uint64_t> sends, receives;
  std::chrono::milliseconds timeout{std::chrono::minutes(30)};
  /// Whatever has to live until the operation is over.
  std::shared_ptr<void> keeps;
  /// Until it is set, by SharedGroup::open(), the operation waits, and those behind it: for something else that this
  /// rank does before. Meanwhile the others are watched, for they wait too; the timeout does not count. Null: for
  /// nothing.
  std::shared_ptr<std::atomic<bool>> gate;
  /// The user's call, where this is a part of one that is carried out between several nodes.
  std::optional<Fingerprint> whole;
  uint64_t place = 0;  ///< of that call among the calls of the whole group
  /// Called when settle() waits for it; empty for nothing.
  std::function<void()> on_wait;
  /// Called once, by the thread that ends the operation, before waiting threads go on; null for success. It must not
  /// call the group, but abort() it may. What it returns, unless that is empty, is called when other threads have gone
  /// on: it may call the group, and wait for what it calls.
  std::function<std::function<void()>(const std::exception_ptr& failure)> on_end;

  bool is_open() const { return !gate || *gate; }
  Fingerprint fingerprint() const { return {.kind = kind, .what = what, .root = root, .elements = elements}; }
  /// What errors call it, where it is number `in_group` of the group.
  uint64_t shown_number(uint64_t in_group) const { return number != 0 ? number : in_group; }
  /// Of `input`.
  uint64_t input_bytes(int world_size) const;
  /// Of each of `outputs`; of all_to_all, of the one from `rank`.
  uint64_t output_bytes(int rank) const;
  /// Whether what one of the ranks gives may not fit a slot: the same on all ranks.
  bool may_be_large(int world_size) const;
  bool writes_to(const void* memory, uint64_t bytes) const;
  /// Whether this one's input is, in part, what `earlier` writes.
  bool reads_results_of(const Request& earlier, int world_size) const;
};

/// What of a rank's input is copied where.
struct Piece {
  int rank = 0;
  uint64_t begin = 0, bytes = 0;
  std::byte* destination = nullptr;
};

/// What of the inputs a rank needs: either pieces, or the same range of every rank's, which is reduced.
struct Needs {
  std::vector<Piece> pieces;
  uint64_t begin = 0, bytes = 0;     ///< of the range that is reduced
  std::byte* destination = nullptr;  ///< null where nothing is reduced
};

/// `parts`: of all_to_all, what each rank sends to each; empty otherwise.
Needs needs_of(const Request& request, int rank, int world_size, const std::vector<std::vector<uint64_t>>& parts);

/// How a rank's values are divided among ranks who work on a slice each: where the slice of `rank` begins, in elements.
/// Slices begin at cache lines, and the last may be shorter, or empty.
uint64_t slice_begin(uint64_t elements, size_t element_size, int rank, int world_size);

}  // namespace paceline::collective
