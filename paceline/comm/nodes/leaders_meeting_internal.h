// How the first ranks of a group's nodes find each other: each listens, says in the store where, and calls those before
// it. Whoever does not know the token that stands there is a stranger.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "paceline/collective/meeting.h"
#include "paceline/core/posix/descriptor.h"

namespace paceline::comm {

using LeadersDeadline = std::chrono::steady_clock::time_point;

/// Collective. Connections to the leaders of all nodes, by node; that of `node`, which is this leader's, is none.
/// `ranks`: of the leaders in the whole group, by node. `address`: where the others reach this machine. CollectiveError
/// when they are not connected by the deadline, naming ranks.
std::vector<Descriptor> connect_leaders(const collective::Bulletin& bulletin, size_t node,
                                        const std::vector<int64_t>& ranks, const std::string& address,
                                        LeadersDeadline deadline);

/// For poll(): -1 for a deadline that never comes, 0 for one that has passed.
int milliseconds_until(LeadersDeadline deadline);

}  // namespace paceline::comm
