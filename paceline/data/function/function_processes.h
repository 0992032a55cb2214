// Where the processes that call users' functions come from: forked_processes.h has those of Python, a test has threads.
//
// A process speaks function_messages.h over its socket. It holds no state that a caller relies on but the objects that
// its functions have made: when it ends, another one is started in its place.
#pragma once

#include <arrow/result.h>
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "paceline/core/posix/descriptor.h"
#include "paceline/core/posix/exit_status.h"

namespace paceline::data {

/// One process. The destructor ends it. kill() may be called from any thread, while another one waits.
class FunctionProcess {
 public:
  virtual ~FunctionProcess() = default;
  virtual pid_t pid() const = 0;
  /// Our end of the connection, to be taken once.
  virtual Descriptor take_socket() = 0;
  /// Ends it at once: our end of the connection reads its end.
  virtual void kill() = 0;
  /// Has it write to standard error where it is in the function. May be called as kill() may.
  virtual void show_stack() = 0;
  /// Waits for its end; nullopt where nobody knows any more how that was.
  virtual std::optional<ExitStatus> wait() = 0;
  /// Bytes of memory that it holds for itself, without what it shares with others.
  virtual int64_t memory() const = 0;
};

/// Starts processes. Thread-safe.
class FunctionProcesses {
 public:
  virtual ~FunctionProcesses() = default;
  /// One that has `variables` in its environment beside those of this process. IOError when it cannot be started.
  virtual arrow::Result<std::unique_ptr<FunctionProcess>> start(
      const std::map<std::string, std::string>& variables) = 0;
};

}  // namespace paceline::data
