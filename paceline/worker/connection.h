// Connection: a worker process's side of its agent's channel.
//
// The process is started by an agent, which names the inherited descriptor in PACELINE_CHANNEL. connect() takes the
// descriptor and the variable away (the process's own children do not see them), receives the Welcome and sends Joined.
// A control thread then receives commands and sends heartbeats; a sender thread sends what is queued, so that report()
// costs the training thread an enqueue. When the agent is gone, the process ends at once, and with it its process group
// if it leads one.
//
// Threading: all methods are thread-safe; both threads have every signal blocked. Callbacks must not call on_stop(),
// on_checkpoint() or destroy the connection. Destruction writes what is queued first.
// After fork() a child (PyTorch's DataLoader makes some) has neither thread: it must not use the connection; destroying
// its copy there does nothing.
// Free of LibTorch: Python and data processes use it too.
#pragma once

#include <arrow/result.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "paceline/core/clock.h"
#include "paceline/core/posix/descriptor.h"
#include "paceline/core/progress.h"
#include "paceline/rpc/key_value.h"
#include "paceline/rpc/messages.h"

namespace paceline::worker {

/// Exit code of a process whose agent has disappeared.
inline constexpr int kLostAgent = 97;

/// A place in a generation: what an Assign said, with the identity that its messages carry.
struct Assignment {
  Identity identity;
  rpc::Assign assign;
};

class Connection {
 public:
  /// Whether this process was started by an agent.
  static bool offered();
  /// Takes the channel. Call once, at the top of main; IOError or Invalid when the channel is not what it should be.
  /// `versions`: by name, of what must be the same on all nodes.
  static arrow::Result<std::unique_ptr<Connection>> connect(const Clock& clock, rpc::StringMap versions = {});

  virtual ~Connection() = default;

  virtual const rpc::Welcome& welcome() const = 0;
  /// What came with it for the program itself; it lives as long as the connection.
  virtual std::string_view attachment() const = 0;
  /// Waits for the next Assign; nullopt when the worker is to end instead: from the first Stop on, always.
  virtual arrow::Result<std::optional<Assignment>> next_assignment() = 0;
  virtual Progress& progress() = 0;

  /// Queues a message with the identity of the current assignment. Order is kept. Never blocks.
  virtual void send(rpc::Envelope envelope) = 0;
  /// The same for a message that may leave up to 5 ms later, together with what follows (Outbox::kGatherTime). A
  /// process that is killed takes what has not left with it.
  virtual void send_soon(rpc::Envelope envelope) = 0;
  /// Sends a request with the identity of the current assignment and waits for the controller's answer, at most for
  /// `limit`. IOError when there is none, when a Stop has come and when the agent is gone.
  virtual arrow::Result<rpc::Envelope> call(rpc::Envelope request, std::chrono::milliseconds limit) = 0;
  /// Waits until all that was queued is written to the agent.
  virtual arrow::Status flush() = 0;
  /// A socket to the data process of the node; waits for one to be there. IOError when a Stop has come or the agent is
  /// gone.
  virtual arrow::Result<Descriptor> connect_data() = 0;

  /// Whether the controller has taken so many reports of this assignment, and so many bytes of them, that `report` may
  /// be sent.
  virtual bool has_room_for(int64_t report) const = 0;
  /// Waits for that; IOError when a Stop has come or the agent is gone.
  virtual arrow::Status wait_for_room(int64_t report) = 0;

  /// The reason of the first Stop, nullopt while none has come.
  virtual std::optional<std::string> stop_reason() const = 0;
  /// Runs on the control thread for each Stop; at once, on this thread, if one has come before. Replaces the previous
  /// callback, which no longer runs once this has returned; {} removes it.
  virtual void on_stop(std::function<void(const rpc::Stop&)> on_stop) = 0;
  /// Runs on the control thread for each checkpoint that is published from now on. Replaces as on_stop() does.
  virtual void on_checkpoint(std::function<void(const rpc::CheckpointCommitted&)> on_checkpoint) = 0;

  /// Runs on a thread of its own when a profile is wanted that is not sampled (rpc::Sample): gives what Sampling
  /// carries. Replaces as on_stop() does; without it such profiles are refused.
  virtual void on_profile(std::function<arrow::Result<Descriptor>(const rpc::Sample&)> on_profile) = 0;

  /// One call of the train loop: whether somebody wants a checkpoint, which all ranks hear at the same of their calls
  /// (checkpoint_request.h). False when a Stop has come.
  virtual bool checkpoint_requested() = 0;

  /// Runs on the control thread with a socket for each rank that wants data, from now on: for the data process.
  /// Replaces as on_stop() does; sockets that came before wait for the first callback.
  virtual void on_data_client(std::function<void(Descriptor)> on_data_client) = 0;

  /// The rendezvous store of the current generation. It may outlive the connection. Its operations fail, those that
  /// wait included, once a Stop has come or the connection is gone.
  virtual std::shared_ptr<rpc::KeyValueClient> store() = 0;
};

struct ConnectionOptions {
  /// What happens when the agent is gone; called once, on one of the connection's threads. If it returns, as in tests,
  /// every waiting call gets an IOError. Default: _exit(kLostAgent).
  std::function<void()> on_lost_agent;
  /// How long the store's answer may be late before the connection gives up on it.
  std::chrono::milliseconds store_grace{60'000};
  /// Whether the process notes its own crash for the agent (stacks/self_capture.h); connect() always does.
  bool note_crashes = false;
  /// As connect() has them.
  rpc::StringMap versions;
};

/// connect() on a socket that the caller has: for tests, with a fake agent at the other end.
arrow::Result<std::unique_ptr<Connection>> connect_over(Descriptor socket, const Clock& clock,
                                                        ConnectionOptions options = {});

}  // namespace paceline::worker
