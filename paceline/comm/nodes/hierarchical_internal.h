// What the two forms of the backend "paceline" know of each other: that of one machine, and that for a group whose
// ranks are on several nodes, some of which have several.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <string>

#include "paceline/collective/group.h"
#include "paceline/comm/backend_internal.h"

namespace paceline::comm {

/// The store as collective/ wants it.
collective::Bulletin bulletin_in(const c10::intrusive_ptr<c10d::Store>& store);

/// Finds out which ranks share memory; collective. `name`: of the keys in the store, of no other meeting.
collective::RanksByNode meet_ranks(const c10::intrusive_ptr<c10d::Store>& store, const std::string& name,
                                   const BackendSettings& settings);

/// Connects to all ranks; collective. `found`: of meet_ranks(). Shared memory within nodes, and Gloo among their
/// leaders.
ConnectedBackend connect_hierarchical(const c10::intrusive_ptr<c10d::Store>& store, const BackendSettings& settings,
                                      collective::RanksByNode found);

}  // namespace paceline::comm
