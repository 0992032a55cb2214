// The agent's end of the channel to a run's controller (listener.h): connects, and connects again when that breaks.
#pragma once

#include <arrow/result.h>

#include <chrono>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "paceline/core/clock.h"
#include "paceline/rpc/channel.h"
#include "paceline/transport/shared_threads.h"
#include "paceline/transport/trust.h"

namespace paceline::transport {

struct ConnectOptions {
  /// "host:port" or "[IPv6]:port", of IPv4, IPv6 or names; tried in turn.
  std::vector<std::string> addresses;
  /// Id of the run.
  std::string run;
  /// What this end calls itself, such as the host's name.
  std::string name;
  /// The agent's.
  Credentials credentials;
  Duration lease = std::chrono::seconds(30);
  /// So long connect() tries.
  Duration patience = std::chrono::seconds(30);
  /// So long the channel's destructor waits until what was sent has been delivered.
  std::chrono::milliseconds linger{2000};
  /// Of many channels in one process; null: the channel has its own.
  std::shared_ptr<SharedThreads> threads = nullptr;
};

/// A channel to the run's controller. Waits for the first connection; later ones are made in the background, for up to
/// a lease. Handlers run on the channel's own thread, which also connects.
/// IOError: no address led to the controller within the patience, or it refused; the message says what happened at
/// each. Cancelled: `stop` was requested, which is looked at between attempts; an attempt takes 5 s at most.
arrow::Result<std::unique_ptr<rpc::Channel>> connect(ConnectOptions options, const std::stop_token& stop = {});

}  // namespace paceline::transport
