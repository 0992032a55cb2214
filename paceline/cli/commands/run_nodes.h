// `paceline run` on several nodes: which part a node has, and the nodes that are not the first.
//
// The first holds the controller, and listens for the others at the address that the flags name. The others are agents
// (agent_program.h) and find it by a token file, which by default is in a home that machines share.
#pragma once

#include <arrow/result.h>

#include <string>
#include <vector>

#include "paceline/agent/node.h"
#include "paceline/cli/commands/run_flags.h"
#include "paceline/core/posix/descriptor.h"
#include "paceline/rpc/messages.h"

namespace paceline::cli {

struct NodePart {
  /// Whether the controller is here.
  bool is_first = false;
  /// Where it listens then, "HOST:PORT"; "" elsewhere.
  std::string listen;
  /// Where it is; empty: as the token file says.
  std::vector<std::string> join;
  std::string token_file;
  agent::NodeOptions node;
  /// Among several processes of this machine that could be the first, the one that has this is.
  Descriptor claim;
  std::vector<std::string> notes;
};

/// Looks at the addresses of this machine; makes the folder of the token file, where that is ours. IOError: no such
/// host.
arrow::Result<NodePart> find_part(const RunFlags& flags);

/// Where the token file is by default: named after the rendezvous id, else after the address, in
/// ~/.paceline/rendezvous.
std::string default_token_file(const RunFlags& flags, const std::string& home);

/// The node of a run whose first is elsewhere, up to the run's end. `command`: what its ranks start. The exit code is
/// that of the first node; kTryAgain when that was lost or not found, 128 + signal when that has ended this node alone.
arrow::Result<int> serve_node(const RunFlags& flags, const NodePart& part, const rpc::Strings& command);

}  // namespace paceline::cli
