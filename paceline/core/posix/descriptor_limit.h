// How many descriptors this process may have open (RLIMIT_NOFILE, `ulimit -n`).
#pragma once

#include <arrow/status.h>

#include <cstdint>

namespace paceline {

/// Makes sure that `more` descriptors can be opened beyond those that are open now: raises the soft limit, which is
/// often 1024, as far as the hard one allows. IOError with the numbers and what to do when that is not enough.
/// It counts what is open (some 50 µs): not for a hot path.
arrow::Status reserve_descriptors(int64_t more);

/// Raises the soft limit as far as the hard one allows: for a process that strangers can make open some.
void raise_descriptor_limit();

}  // namespace paceline
