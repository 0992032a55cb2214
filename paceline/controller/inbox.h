// Inbox: what arrives at the controller's thread from all others, in the order of arrival.
//
// Threading: push() from any thread; take() and wait() from the controller's. Waiting is one poll() on events: nothing
// is checked at intervals.
#pragma once

#include <arrow/result.h>

#include <memory>
#include <mutex>
#include <optional>
#include <variant>
#include <vector>

#include "paceline/checkpoint/store.h"
#include "paceline/controller/launcher/launcher.h"
#include "paceline/core/clock.h"
#include "paceline/core/posix/descriptor.h"
#include "paceline/rpc/channel.h"
#include "paceline/rpc/messages.h"

namespace paceline::controller {

/// An agent that the launcher has brought up.
struct AgentCame {
  std::unique_ptr<rpc::Channel> channel;
};

/// One that the launcher could not bring up.
struct AgentFailed {
  AgentFailure failure;
};

/// From an agent, or from a worker through it.
struct FromAgent {
  /// Which of the agents, in the order in which they came.
  size_t agent = 0;
  rpc::Envelope envelope;
};

/// The agent's channel has closed.
struct AgentGone {
  size_t agent = 0;
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

/// The client of a FromCommandLine that watches the run (rpc/watch_messages.h) has closed its connection.
struct CommandLineGone {
  std::shared_ptr<rpc::Channel> client;
};

/// What a worker wrote to a waiting stream, so many bytes of it, has reached the driver's standard output.
struct OutputWritten {
  WorkerId worker;
  rpc::OutputTaken taken;
};

/// How many lines of workers' output the inbox has left out; all of them are in their logs.
struct OutputLeftOut {
  int64_t lines = 0;
};

/// Another driver has taken the run over; it is no longer this one's.
struct LeaseLost {
  std::string why;
};

/// Some of the metrics history has been written, or could not be.
struct HistoryWritten {};

using Incoming = std::variant<AgentCame, AgentFailed, FromAgent, AgentGone, PublishDone, RemoveFailed, FromCommandLine,
                              CommandLineGone, OutputWritten, OutputLeftOut, LeaseLost, HistoryWritten>;

class Inbox {
 public:
  /// A driver whose terminal stands still (Ctrl-S, `| less`) while workers keep writing must not fill the memory.
  static constexpr size_t kMostOutputBytes = size_t{8} << 20;

  Inbox();

  /// Workers' output is left out while kMostOutputBytes of it are there, but where its writers wait: then there is not
  /// more than they may write ahead. Everything else comes in.
  void push(Incoming incoming);
  /// All that is there now; last, when there was any, how much output was left out.
  std::vector<Incoming> take();
  /// Waits until something is there, `other` is readable, or `deadline` has come.
  void wait(int other, std::optional<Time> deadline, const Clock& clock);

 private:
  Descriptor event_;  // an eventfd, readable while something is there
  std::mutex mutex_;
  std::vector<Incoming> waiting_;
  size_t output_bytes_ = 0;
  int64_t lines_left_out_ = 0;
};

/// Takes the count of an eventfd, 0 when nothing was written.
uint64_t take_count(int event);

}  // namespace paceline::controller
