// Execution: what one rank does for one operation that it has announced.
#pragma once

#include <string>
#include <vector>

#include "paceline/collective/peers.h"
#include "paceline/collective/request.h"

namespace paceline::collective {

class Execution {
 public:
  /// `reads_others`: all ranks may use process_vm_readv() on all others. What is given stays until the end.
  Execution(Peers& peers, const Request& request, uint64_t number, bool reads_others, const WaitLimits& limits,
            const Waiting& waiting);
  /// Returns when this rank has what it needs, and no other needs its input any more. PeerLost; CollectiveError where
  /// the ranks call different things.
  void run();
  /// Whether a rank that carries it out writes to this rank's memory, or may come to it.
  bool is_reduced_in_place() const;

 private:
  enum class Way {
    published,    ///< all inputs are in slots
    where_it_is,  ///< large ones are read where they are
    in_pieces     ///< large ones go through staging memory
  };

  const Announcement& announcement(int rank) const;
  bool is_same_call() const;
  void compare() const;
  std::vector<std::vector<uint64_t>> parts() const;
  void check_receives(const std::vector<std::vector<uint64_t>>& parts) const;
  Way way() const;
  bool is_large(int rank) const { return announcement(rank).bytes > 0 && !announcement(rank).is_in_slot; }
  void advance(uint64_t stage);
  void wait_for(uint64_t stage);
  const std::byte* mapped(int rank) const;
  void read(int rank, uint64_t begin, uint64_t bytes, std::byte* destination) const;
  void copy(const Piece& piece) const;
  void reduce_range(uint64_t begin, uint64_t bytes, const std::vector<void*>& destinations) const;
  void take(const Needs& needs) const;
  void end_where_it_is();
  void reduce_slices();
  void run_in_pieces(const Needs& needs);

  Peers& peers_;
  const Request& request_;
  const uint64_t number_;
  const bool reads_others_;
  const WaitLimits limits_;
  const Waiting& waiting_;
  const std::string what_;
};

/// A place where tests make a rank fail (fail_point.h): CollectiveError where they want an error.
void pass(const char* fail_point);

/// "all_reduce number 7".
std::string name_of(const Request& request, uint64_t number);

}  // namespace paceline::collective
