// Agent: starts, watches and ends the processes of one node on the controller's behalf.
//
// It speaks StartProcess, EndProcess, ProcessStarted, … (rpc/messages.h) on its channel to the controller, and frames
// on a socket pair with each process that it has started; what a process sends and what is for a process passes through
// with the envelope's identity.worker as address. A process's environment names its end of the pair by PACELINE_CHANNEL
// (a descriptor number), nothing else; the Welcome that follows says what the process is for.
//
// For every process the agent writes `log_file` (stdout and stderr, each whole line as it comes), forwards the lines,
// reads its progress word, and reports: no heartbeat for the allowed time once (ProcessSilent), and its end with
// status, last lines, step and phase (ProcessExited) after all it had sent and written.
//
// Threading: runs one thread of its own from start() until destruction. Ownership: owns its channel; uses the guardian.
// Destruction ends every process (SIGKILL, whole trees) and returns when they are gone; one that cannot be killed,
// because it hangs in the kernel, is given up after twice AgentOptions::kill_patience_s. When the guardian ends, or is
// lost in another way, the agent ends every process as well as it can without it and reports that once (NodeFailed): it
// can start nothing any more.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "paceline/agent/guardian.h"
#include "paceline/agent/node.h"
#include "paceline/rpc/channel.h"

namespace paceline::agent {

/// How often agents of runs take samples, in milliseconds.
inline constexpr int64_t kSampleIntervalMs = 1000;

struct AgentOptions {
  NodeOptions node;
  /// A folder of this agent's alone, for its processes (rpc::kNodeFolderVariable); "" for none. Whoever starts the
  /// agent deletes it, and the guardian, where the agent dies.
  std::string folder;
  /// Command line and working directory of the processes that are executed, in the place of what the controller says;
  /// empty: as it says.
  rpc::Strings program;
  std::string directory;
  /// How often it sends a sample of its node and processes (rpc/sample_messages.h), in milliseconds; 0: never.
  int64_t sample_interval_ms = 0;
  /// How many of a process's last lines its ProcessExited carries.
  int last_lines = 20;
  /// Seconds that the guardian has to end a process before the agent kills it itself: a guardian may have been stopped.
  double kill_patience_s = 5.0;
  /// Seconds beyond its grace that a process in the phase `failing` has to report what failed.
  double failing_patience_s = 2.0;
};

class Agent {
 public:
  virtual ~Agent() = default;
  /// Waits until the controller's channel has closed and every process has ended. OK when the controller closed it in
  /// order; otherwise why it broke.
  virtual arrow::Status wait() = 0;
  /// What the controller said last, if it said how the run has ended. After wait().
  virtual std::optional<rpc::Dismissed> dismissal() const = 0;
  /// Asks the controller to stop the run.
  virtual void ask_for_stop(const std::string& reason) = 0;
  /// Ends every process as `how` says, then closes the channel, as if the controller had; does not wait. May be called
  /// again, with less grace.
  virtual void end(const rpc::EndProcess& how = {}) = 0;
  /// Tells the controller that this node will be taken away in so many seconds; does not wait. All goes on until then.
  virtual void announce_leaving(double seconds) = 0;
};

/// Starts an agent on `controller`; it sends NodeReady first.
arrow::Result<std::unique_ptr<Agent>> start_agent(std::unique_ptr<rpc::Channel> controller, const Guardian& guardian,
                                                  AgentOptions options = {});

}  // namespace paceline::agent
