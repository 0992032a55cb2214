// How many descriptors this process may have open (RLIMIT_NOFILE, `ulimit -n`).
#pragma once

#include <arrow/status.h>

#include <cstdint>

namespace paceline {

/// Makes sure that `more` descriptors can be opened beyond those that are open now: raises the soft limit, which is
/// often 1024, as far as the hard one allows. IOError with the numbers and what to do when that is not enough.
/// It counts what is open (some 50 µs): not for a hot path.
arrow::Status reserve_descriptors(int64_t more);

/// Whether a call has failed with this errno for want of descriptors, of this process or of the machine.
bool is_lack_of_descriptors(int error);

/// After that: OK when one more can be opened now, else what to do.
arrow::Status make_room_for_descriptor(int error);

/// Raises the soft limit as far as the hard one allows: for a process that strangers can make open some.
void raise_descriptor_limit();

}  // namespace paceline
