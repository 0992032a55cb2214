// PeerLost: the error of a collective whose other ranks are gone. Part of the public API, as error.h.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "paceline/core/error.h"

namespace paceline {

/// A collective failed because other ranks have ended, have left the group or did not come in time.
class PeerLost : public CollectiveError {
 public:
  /// `message`: operation and rank, and what is known of the others. `ranks`: those that are missing, in order.
  PeerLost(const std::string& message, std::vector<int64_t> ranks)
      : CollectiveError(message, CollectiveCause::other_rank), ranks_(std::move(ranks)) {}

  /// Those that are missing, as the group counts them.
  const std::vector<int64_t>& ranks() const noexcept { return ranks_; }

 private:
  std::vector<int64_t> ranks_;
};

}  // namespace paceline
