// Meeting: the ranks of one machine give each other their arenas.
//
// Each rank listens at an abstract Unix socket, which no container of another network namespace and no other machine
// reaches, and puts its address on a bulletin that all ranks of the group read (a c10d Store). Descriptors travel over
// the connections, which stay open: the end of a process is heard there. Who has attached whose memory decides who is
// together, not what anybody's environment says.
// Threading: one call at a time. Only processes of one's own user, or of root, are let in.
#pragma once

#include <arrow/result.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "paceline/collective/arena.h"
#include "paceline/core/posix/descriptor.h"

namespace paceline::collective {

/// Where the ranks of a group leave word for each other. `get` waits until the key is there, up to the deadline; both
/// throw what the store throws.
struct Bulletin {
  std::function<void(const std::string& key, const std::string& value)> set;
  std::function<std::string(const std::string& key, std::chrono::steady_clock::time_point deadline)> get;
};

/// Another rank of this machine.
struct Member {
  int rank = 0;         ///< of the whole group
  int64_t process = 0;  ///< its id as this process sees it; 0: it cannot see it
  std::shared_ptr<ArenaView> arena;
  Descriptor connection;  ///< readable once the process has ended
  Descriptor pidfd;       ///< likewise; none where it cannot be had
};

/// Ranks that share memory, this one among them.
struct Meeting {
  std::vector<int> ranks;               ///< of the whole group, in their order, with this rank
  std::vector<Member> members;          ///< the others, in their order
  std::vector<std::vector<int>> nodes;  ///< all ranks, by who shares memory with whom; each list in order
  /// Which rank has no memory to share, and why: then nobody shares any, and the lists are empty. "" as a rule.
  std::string missing;
};

/// The ranks of a group by who has attached whom: `attached[r]` lists those whose memory rank r has. Who is together is
/// so with everybody else of the list. Pure, and the same on all ranks.
std::vector<std::vector<int>> ranks_by_node(const std::vector<std::vector<int>>& attached);

/// Meets the others of this machine. Collective. `own`: this rank's memory, or why there is none. `timeout`: for the
/// whole meeting. `node`: ranks that give other names are taken for ranks of other machines. IOError when a rank that
/// has shown itself does not go on, with its number. Throws CollectiveError of this rank when this process may not open
/// as many files as it has to, after it has raised the soft limit (`ulimit -n`) as far as it goes.
arrow::Result<Meeting> meet(const Bulletin& bulletin, int rank, int world_size,
                            const arrow::Result<std::shared_ptr<Arena>>& own, std::chrono::milliseconds timeout,
                            const std::string& node = "");

}  // namespace paceline::collective
