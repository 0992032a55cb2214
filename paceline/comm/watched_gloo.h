// Gloo for programs that make their process groups themselves, such as Python's torch.distributed.
//
// Its collectives are counted and can be made to fail from another thread. They fail with c10::DistBackendError, which
// says rank and operation and is torch.distributed.DistBackendError in Python, also after autograd.
// Threading: collectives as c10d's; abort_watched_gloo() from any thread.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <string>
#include <vector>

#include "paceline/core/progress.h"

namespace c10d {
class ProcessGroupGloo;
class Store;
}  // namespace c10d

namespace paceline::comm {

struct WatchedGlooOptions {
  int64_t rank = 0;
  int64_t world_size = 1;
  std::chrono::milliseconds timeout{};
  /// Network interfaces to connect by; empty: the loopback interface.
  std::vector<std::string> interfaces;
  /// Where collectives are counted; null for nowhere. Outlives the group.
  Progress* progress = nullptr;
};

/// Connects to all ranks; collective. Throws what Gloo throws.
c10::intrusive_ptr<c10d::ProcessGroupGloo> make_watched_gloo(const c10::intrusive_ptr<c10d::Store>& store,
                                                             const WatchedGlooOptions& options);

/// Makes the waiting collectives of all that make_watched_gloo() has made fail, and those that follow.
void abort_watched_gloo();

}  // namespace paceline::comm
