// PeerLost: the error of a collective whose other ranks are gone. Part of the public API, as error.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
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

/// "rank 2", "ranks 2, 4", for errors.
std::string names_of_ranks(const std::vector<int64_t>& ranks);

/// " for want of ranks 2, 4", as the errors of collectives have it; "" for nobody.
std::string for_want_of(const std::vector<int64_t>& missing);

/// The ranks for want of which a collective has failed, by the text of its error, of which Python keeps nothing else;
/// empty where the text names none.
std::vector<int64_t> ranks_wanted_in(std::string_view text);

}  // namespace paceline
