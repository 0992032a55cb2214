// Listener: where the agents of one run reach its controller. Each agent becomes a channel (rpc/channel.h), which goes
// on over connections that break.
//
// Nothing listens unless one is opened, at an address that was chosen. Whoever connects must show a certificate of this
// run's authority (mutual TLS) and the run's token before anything else is read; what others send is not looked at, and
// they are not told why. An agent whose channel is over here, or was another controller's, is refused and ends.
// Threads: gRPC's, one for each connection, which also calls the channel's handlers and on_peer; and the shared ones
// (shared_threads.h). Several listeners in one process do not know of each other.
#pragma once

#include <arrow/result.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "paceline/core/clock.h"
#include "paceline/rpc/channel.h"
#include "paceline/transport/trust.h"

namespace paceline::transport {

class Listener {
 public:
  /// An agent that has come.
  struct Peer {
    std::string id;
    /// What it calls itself, such as its host's name, and where it comes from.
    std::string name;
    std::string address;
  };

  struct Options {
    /// "host:port" or "[IPv6]:port"; port 0 takes any that is free.
    std::string address;
    /// Id of the run.
    std::string run;
    /// The controller's.
    Credentials credentials;
    Duration lease = std::chrono::seconds(30);
    /// Called once for each agent, before anything of it is delivered; never two at once for the same agent.
    std::function<void(std::unique_ptr<rpc::Channel>, Peer)> on_peer;
    /// So long the destructor waits for channels that were closed to deliver what was sent.
    std::chrono::milliseconds linger{2000};
  };

  /// IOError: the address cannot be listened at.
  static arrow::Result<std::unique_ptr<Listener>> open(Options options);
  virtual ~Listener() = default;

  /// Where it listens, with the port that was taken.
  virtual std::string address() const = 0;
};

}  // namespace paceline::transport
