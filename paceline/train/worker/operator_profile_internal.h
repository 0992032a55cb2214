// Profiles that a worker makes of itself with LibTorch's profiler (Kineto), without its train loop's help: the timeline
// of its operators, and what they have allocated.
//
// The profiler watches all threads (ExperimentalConfig::profile_all_threads) from a thread of its own. Training goes
// on, a little slower. One at a time: LibTorch's profiler is one for the process, and the user's own comes first.
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

/// Of `wanted.kind`, over `wanted.seconds`. `with_gpu`: what runs on GPUs too. Invalid when the user's own profiler
/// runs, or when it would be too large.
arrow::Result<OwnProfile> profile_operators(const rpc::Sample& wanted, bool with_gpu);

/// Memory as rpc::Sampling carries it.
arrow::Result<Descriptor> memory_with(const OwnProfile& taken);

}  // namespace paceline::train
