// The backend "paceline" for programs that make their process groups themselves, such as Python's torch.distributed.
//
// It is for tensors of the CPU: shared memory where all ranks of the group are on one machine, and Gloo, watched as
// watched_gloo.h says, where they are not. What fails is thrown as c10::DistBackendError.
// Threading: collectives as c10d's; abort_shared_memory() from any thread.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include "paceline/comm/watched_gloo.h"

namespace c10d {
class Backend;
}

namespace paceline::comm {

/// Meets all ranks; collective. `options`: as of Gloo, `interfaces` only matter where ranks are on several machines.
/// Throws CollectiveError when they do not come in time.
c10::intrusive_ptr<c10d::Backend> make_shared_memory(const c10::intrusive_ptr<c10d::Store>& store,
                                                     const WatchedGlooOptions& options);

/// Makes the waiting collectives of all that make_shared_memory() has made fail, and those that follow.
void abort_shared_memory();

}  // namespace paceline::comm
