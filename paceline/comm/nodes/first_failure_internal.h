// FirstFailure: what has failed first in a group of several nodes, as its ranks pass it on so that all name the same.
//
// Within a node everybody sees who is missing. Between nodes a broken connection says less: there the word of who knows
// more counts. Pure data.
#pragma once

#include <arrow/result.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::comm {

struct FirstFailure {
  std::vector<int64_t> missing;  ///< ranks of the whole group
  std::string text;
  /// Or else somebody may know more: a connection has broken, for whatever reason, or a rank is late.
  bool is_certain = true;

  /// For the others, in `most_bytes` at most: a text that is longer is cut, and then the list of ranks.
  std::string encode(size_t most_bytes) const;
  /// Invalid for what encode() has not made.
  static arrow::Result<FirstFailure> decode(std::string_view word);
  /// What is thrown on the rank that has found it: PeerLost, or CollectiveError where nobody is missing.
  std::exception_ptr as_thrown() const;
  /// What is thrown on `rank`, which has been told of it, likewise; it may be one of those that are missing.
  std::exception_ptr as_told(int64_t rank, int64_t world_size) const;
};

/// What `failure` says, as it is thrown by this rank's collectives.
FirstFailure first_failure_in(const std::exception_ptr& failure);

}  // namespace paceline::comm
