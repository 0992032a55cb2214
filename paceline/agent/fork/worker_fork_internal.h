// Forks a worker from the guardian, which is the user's program as it stood at init(): where C++ workers come from.
// (Python's come from a fork server, fork_server.h.)
#pragma once

#include <arrow/result.h>

#include <string>
#include <variant>

#include "paceline/agent/guardian_messages.h"
#include "paceline/agent/spawn_internal.h"

namespace paceline::agent {

/// What a process that has been forked is to become; its descriptors are its own.
struct ForkedProcess {
  std::string directory;
  rpc::StringMap environment;
  Descriptor standard_output, standard_error, channel;

  /// Puts them in place, in a process that nothing else needs any more of what is open. The channel is where spawn()
  /// has it, and nothing beyond is open. The directory's status; the rest cannot fail.
  arrow::Status take_place();
};

/// As spawn(), but a fork of this process, which must have one thread. Returns in both: the process, or what to become.
arrow::Result<std::variant<SpawnedProcess, ForkedProcess>> fork_process(const Spawn& request);

/// Standard input is empty, the other two are these; then the working directory, unless it is "". For forked processes.
arrow::Status take_streams_and_directory(const Descriptor& standard_output, const Descriptor& standard_error,
                                         const std::string& directory);

}  // namespace paceline::agent
