// Backends for programs that make their process groups themselves, such as Python's torch.distributed.
//
// Their collectives are counted and can be made to fail from another thread. They fail with c10::DistBackendError,
// which says rank and operation and is torch.distributed.DistBackendError in Python, also after autograd. Threading:
// collectives as c10d's; abort_backends() from any thread.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "paceline/core/progress.h"

namespace c10d {
class Backend;
class ProcessGroupGloo;
class Store;
}  // namespace c10d

namespace paceline::comm {

struct BackendOptions {
  int64_t rank = 0;
  int64_t world_size = 1;
  std::chrono::milliseconds timeout{};
  /// Where the other ranks reach this one, unless GLOO_SOCKET_IFNAME names interfaces; "": the address of the machine's
  /// name, as PyTorch's own groups have it.
  std::string address;
  /// Ranks of other names are taken for ranks of other machines, also where they could share memory: for tests.
  std::string node;
  /// Where collectives are counted; null for nowhere. Outlives the group.
  Progress* progress = nullptr;
  /// Whether it is the group of all ranks, or its part for a device, whose collectives are compared between them.
  /// Others tell each other through the store which ranks of the run they are.
  bool is_of_all = true;
  int64_t rank_in_run = 0;
};

/// Connects to all ranks; collective. Throws what Gloo throws.
c10::intrusive_ptr<c10d::ProcessGroupGloo> make_gloo(const c10::intrusive_ptr<c10d::Store>& store,
                                                     const BackendOptions& options);

/// The backend "paceline", for tensors of the CPU: shared memory among the ranks of a machine, and Gloo between
/// machines. Collective. Throws CollectiveError when the ranks do not come in time.
c10::intrusive_ptr<c10d::Backend> make_shared_memory(const c10::intrusive_ptr<c10d::Store>& store,
                                                     const BackendOptions& options);

/// Calls what it is given, without a lock that the calling thread may have: the interpreter's.
using WithoutLock = std::function<void(const std::function<void()>&)>;

/// Before the interpreter ends: waits, `most` at most, until no callbacks of futures run any more that other threads
/// call, and lets none begin; what they hold stays. Futures are completed as before: who asks for that of a collective
/// from then on waits for it there, `without_lock`, so that its callbacks run in that thread. Whether none runs any
/// more.
bool stop_callbacks(std::chrono::milliseconds most, WithoutLock without_lock);

/// Makes the waiting collectives of all that these have made fail, and those that follow; also of the groups that c10d
/// has split off from them.
void abort_backends();

}  // namespace paceline::comm
