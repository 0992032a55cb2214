// Processes that call functions, forked from a fork server: a process with one thread that has imported what functions
// need (python/paceline/_function_process.py). It ends when its connection to us does, in whatever way, and all that it
// has forked with it; so nothing is left when this process is gone.
//
// Over that connection go the messages below, in frames (rpc/frame.h).
#pragma once

#include <arrow/result.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>

#include "paceline/core/posix/descriptor.h"
#include "paceline/data/function/function_processes.h"
#include "paceline/rpc/blocking_socket.h"
#include "paceline/rpc/messages.h"

namespace paceline::data {

// To the server: forks a process.
#define PACELINE_FORK_FUNCTION_PROCESS_FIELDS(FIELD) FIELD(rpc::StringMap, variables, {}) /* of its environment */
PACELINE_MESSAGE(ForkFunctionProcess, "fork", PACELINE_FORK_FUNCTION_PROCESS_FIELDS);

// From the server, at once: the process, with three descriptors: its socket, its pidfd, and a pipe from which what
// waitpid() gives for it can be read once it has ended, four bytes.
#define PACELINE_FUNCTION_PROCESS_FORKED_FIELDS(FIELD) \
  FIELD(int64_t, pid, 0)                               \
  FIELD(std::string, error, "") /* why there is no process, and no descriptor */
PACELINE_MESSAGE(FunctionProcessForked, "forked", PACELINE_FUNCTION_PROCESS_FORKED_FIELDS);

// To the server: nobody needs the process any more. It is given a few seconds to end by itself.
#define PACELINE_END_FUNCTION_PROCESS_FIELDS(FIELD) FIELD(int64_t, pid, 0)
PACELINE_MESSAGE(EndFunctionProcess, "end", PACELINE_END_FUNCTION_PROCESS_FIELDS);

/// Those of one server, and of another one if that ends before it is to. Thread-safe.
class ForkedProcesses : public FunctionProcesses {
 public:
  /// Starts a server, and gives the connection to it.
  using Begin = std::function<arrow::Result<Descriptor>()>;
  /// `server`: the connection to the first one. `patience`: how long a server may take for an answer before a notice
  /// says that it is waited for.
  ForkedProcesses(Descriptor server, Begin begin, std::chrono::milliseconds patience = std::chrono::minutes(1));

  arrow::Result<std::unique_ptr<FunctionProcess>> start(const std::map<std::string, std::string>& variables) override;
  /// Ends the server, and all processes with it: calls that are under way meet their end.
  void end();
  /// In a fork of the program: closes the fork's descriptor of the connection, so that the server sees the program's
  /// end. Nothing else may be done with it there.
  void let_go_in_fork();

 private:
  struct Connection {
    explicit Connection(Descriptor server) : socket(std::move(server)) {}
    rpc::BlockingSocket socket;
  };
  class Process;
  std::shared_ptr<Connection> connection() const;
  arrow::Status begin_again();
  arrow::Result<rpc::Envelope> ask(Connection& server, const std::map<std::string, std::string>& variables) const;

  const Begin begin_;
  const std::chrono::milliseconds patience_;
  std::mutex starting_;  // of a request and its answer
  mutable std::mutex mutex_;
  std::shared_ptr<Connection> connection_;  // its processes hold it, too
  bool has_ended_ = false;
};

}  // namespace paceline::data
