// A process held by a descriptor (pidfd): its id cannot be reused under us.
#pragma once

#include <arrow/result.h>
#include <sys/types.h>

#include "paceline/core/posix/descriptor.h"

namespace paceline {

/// Opens `pid`; the descriptor becomes readable when the process ends. IOError when there is no such process.
arrow::Result<Descriptor> open_pidfd(pid_t pid);

}  // namespace paceline
