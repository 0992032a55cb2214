// Inbox: what arrives at the controller's thread from all others, in the order of arrival.
//
// Threading: push() from any thread; take() and wait() from the controller's. Waiting is one poll() on events: nothing
// is asked in intervals.
#pragma once

#include <arrow/result.h>

#include <memory>
#include <mutex>
#include <optional>
#include <variant>
#include <vector>

#include "paceline/checkpoint/store.h"
#include "paceline/core/clock.h"
#include "paceline/core/posix/descriptor.h"
#include "paceline/rpc/channel.h"

namespace paceline::controller {

/// From an agent, or from a worker through it.
struct FromAgent {
  size_t node = 0;
  rpc::Envelope envelope;
};

/// The agent's channel has closed.
struct AgentGone {
  size_t node = 0;
  arrow::Status status;
};

struct PublishDone {
  int64_t report = 0;
  arrow::Result<checkpoint::Published> published;
};

struct RemoveFailed {
  int64_t report = 0;
  arrow::Status status;
};

/// From the command line; the answer goes to `client`.
struct FromCommandLine {
  std::shared_ptr<rpc::Channel> client;
  rpc::Envelope request;
};

using Incoming = std::variant<FromAgent, AgentGone, PublishDone, RemoveFailed, FromCommandLine>;

class Inbox {
 public:
  Inbox();

  void push(Incoming incoming);
  /// All that is there now.
  std::vector<Incoming> take();
  /// Waits until something is there, `other` is readable, or `deadline` has come.
  void wait(int other, std::optional<Time> deadline, const Clock& clock);

 private:
  Descriptor event_;  // an eventfd, readable while something is there
  std::mutex mutex_;
  std::vector<Incoming> waiting_;
};

/// Takes the count of an eventfd, 0 when nothing was written.
uint64_t take_count(int event);

}  // namespace paceline::controller
