// Profiles that a worker makes of itself while its train loop goes on and does nothing for it: the timeline of
// LibTorch's operators, by LibTorch's own profiler (Kineto), and what operators allocate.
//
// Both watch all threads, from a thread of their own, which waits meanwhile. One at a time.
#pragma once

#include <arrow/result.h>

#include <functional>
#include <string>

#include "paceline/core/posix/descriptor.h"
#include "paceline/rpc/messages.h"
#include "paceline/stacks/profile.h"

namespace paceline::train {

/// A larger timeline is refused: what reads them would not open it.
inline constexpr size_t kMostTimelineBytes = size_t{64} << 20;

struct OwnProfile {
  stacks::Profile profile;
  std::string timeline;  ///< in Chrome's format, compressed (gzip); "" for none
};

/// Invalid when the program uses LibTorch's profiler itself, which is one for the process, or when the timeline would
/// be too large. `with_gpu`: what runs on GPUs too.
arrow::Result<OwnProfile> take_timeline(double seconds, bool with_gpu);

/// All that operators have allocated, on CPUs and GPUs, by operator and those that called it: bytes. Operators of a
/// thread that the program's own profiler watches are left out.
OwnProfile profile_allocations(double seconds);

/// Memory as rpc::Sampling carries it.
arrow::Result<Descriptor> memory_with(const OwnProfile& taken);

}  // namespace paceline::train
