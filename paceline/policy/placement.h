// Placement: how many workers each node gets. Pure.
//
// The strategies are those of Ray's placement groups, of which each worker is a bundle: PACK fills as few nodes as it
// can, SPREAD puts one worker after the other on the next node that has room; STRICT_PACK wants one node for all,
// STRICT_SPREAD a node for each. Nodes may differ. Ranks of a node are neighbours, whatever the strategy.
// A host that the run has lost, or on which a group failed first, twice in all, and a node that will be taken away, are
// used only when the others have no room.
// Programs of `paceline run` on several nodes are not placed: each node says how many it has (fill()).
#pragma once

#include <string>
#include <vector>

#include "paceline/policy/state.h"

namespace paceline::policy {

/// How often a host may be lost, or be where a group fails, before workers are placed on others first.
inline constexpr int64_t kFailuresToAvoid = 2;

struct Placement {
  /// Workers by position in RunState::nodes; empty when they do not fit.
  std::vector<int64_t> counts;
  /// Why they do not fit, with what each node has; "" when they do.
  std::string problem;
};

/// Places `workers` workers with what `options` say each of them needs on the nodes that are not lost; those named by
/// `leaving` will be taken away.
Placement place(const std::vector<Node>& nodes, const RunOptions& options, int64_t workers, const Lines& leaving = {});

/// As many workers on each node as it says: on RunOptions::most_nodes nodes at most, of those that are not lost the
/// first in the order of their ranks. They do not fit where there are fewer than RunOptions::nodes.
Placement fill(const std::vector<Node>& nodes, const RunOptions& options);

/// Positions of the nodes in the order of their ranks; those without one come behind, as they came.
std::vector<size_t> in_rank_order(const std::vector<Node>& nodes);

/// How many workers fit on the node beside each other, at most `most`; 0 on a node that is lost, or whose labels are
/// others than those that are wanted.
int64_t room_on(const Node& node, const RunOptions& options, int64_t most);

}  // namespace paceline::policy
