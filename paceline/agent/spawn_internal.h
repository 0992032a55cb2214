// Starts one process as a child of the caller by executing a program, with nothing inherited but what it shall have.
#pragma once

#include <arrow/result.h>
#include <sys/types.h>

#include <string>
#include <utility>

#include "paceline/agent/guardian_messages.h"
#include "paceline/core/posix/descriptor.h"

namespace paceline::agent {

/// Where a process finds its end of the channel. Fixed, so that it cannot clash with another end while they are moved
/// into place: those of the caller are higher, because 0 to 2 and its lease are open.
inline constexpr int kChannelDescriptor = 3;

/// A pipe, read end first, closed on exec.
arrow::Result<std::pair<Descriptor, Descriptor>> make_pipe();

/// The streams and the channel of a process that is about to be started: our ends and its own.
struct ProcessEnds {
  Descriptor standard_output, standard_error;            // read ends
  Descriptor channel;                                    // ours of the socket pair
  Descriptor its_output, its_error_output, its_channel;  // close them once the process has them
};
arrow::Result<ProcessEnds> make_process_ends();

struct SpawnedProcess {
  pid_t pid = 0;
  Descriptor pidfd;
  Descriptor standard_output;  // read ends
  Descriptor standard_error;
  Descriptor channel;  // the caller's end of the socket pair; the process finds its own by PACELINE_CHANNEL
};

/// The child `pid` in a process group of its own, with our ends. One that cannot be watched is killed: IOError.
arrow::Result<SpawnedProcess> watch(pid_t pid, ProcessEnds ends);

/// A fork server, with its channel to us: it finds its end by kForkServerVariable.
struct SpawnedForkServer {
  pid_t pid = 0;
  Descriptor channel;
  Descriptor output;  // where standard output and standard error can be read
};
arrow::Result<SpawnedForkServer> spawn_fork_server(const Spawn& request);

/// The process leads a process group of its own; its signals are at their defaults and none is blocked. Its standard
/// input is the caller's. All descriptors of the caller beyond 2 must be closed on exec, and 0 to 2 must be open.
/// IOError when it cannot be started; the message names program and directory.
arrow::Result<SpawnedProcess> spawn(const Spawn& request);

}  // namespace paceline::agent
