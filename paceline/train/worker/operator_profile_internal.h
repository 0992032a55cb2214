// Profiles that a worker makes of itself while its train loop goes on and does nothing for it: when LibTorch's
// operators run, and what they allocate.
//
// LibTorch tells of each operator (RecordFunction), in all threads, and its allocators of what they give. Its own
// profiler (Kineto) is not used: it is one for the process, and the program's. So what GPUs carry out is not in a
// timeline. A thread of its own waits meanwhile; one at a time. Forks of the process go on unwatched.
#pragma once

#include <arrow/result.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "paceline/core/posix/descriptor.h"
#include "paceline/stacks/profile.h"

namespace paceline::train {

/// What is more is left out, and counted as dropped: what reads timelines would not open more.
inline constexpr size_t kMostOperators = size_t{1} << 20;

struct OwnProfile {
  stacks::Profile profile;
  std::string timeline;  ///< in Chrome's format, compressed (gzip); "" for none
};

/// Which operators begin and end in so many seconds, and when the steps began: `step` gives the train loop's, and is
/// called from the threads of operators. With `steps`, of as many whole steps, if they end in that time; a step begins
/// with its first operator. Of a loop that has had no step, and has none in 5 s, the operators of these.
arrow::Result<OwnProfile> take_timeline(double seconds, int64_t steps, std::function<int64_t()> step);

/// All that operators allocate in so many seconds, on CPUs and GPUs, by operator and those that called it: bytes.
/// Operators of a thread that the program's own profiler watches are left out.
OwnProfile profile_allocations(double seconds);

/// Memory as rpc::Sampling carries it.
arrow::Result<Descriptor> memory_with(const OwnProfile& taken);

}  // namespace paceline::train
