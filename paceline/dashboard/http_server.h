// HttpServer: HTTP/1.1 on a port of this machine, over Boost.Beast: sockets, limits and time-outs, nothing else.
//
// One thread has all sockets; a few others call `answer`, which may block. What is larger, slower or more than the
// limits allow is refused before anybody is asked for an answer. Answers that are events (message.h) go on with what
// the feed delivers. Thread-safe.
#pragma once

#include <arrow/result.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "paceline/dashboard/feed.h"
#include "paceline/dashboard/message.h"

namespace paceline::dashboard {

struct HttpLimits {
  uint32_t header_bytes = 16 * 1024;
  uint64_t body_bytes = 1024 * 1024;
  size_t connections = 256;
  /// Of these from one other machine: a quarter, so that it does not keep everybody else out.
  size_t connections_of_one = 64;
  size_t streams = 64;
  /// What a client of events may have waiting.
  size_t stream_bytes = size_t{1} << 20;
  /// From the first byte of a head to its last; for the body as long again.
  std::chrono::milliseconds head{15'000};
  /// Between two requests.
  std::chrono::milliseconds idle{60'000};
  /// For an answer to be taken.
  std::chrono::milliseconds write{60'000};
};

class HttpServer {
 public:
  using Answer = std::function<Response(const Request& request)>;

  /// Listens at the address ("127.0.0.1"); port 0 is any that is free. `feed` must outlive it. IOError: the port is
  /// taken, or the address is not this machine's. Invalid: it is no address.
  static arrow::Result<std::unique_ptr<HttpServer>> listen(const std::string& address, uint16_t port, Feed& feed,
                                                           const HttpLimits& limits = {});
  virtual ~HttpServer() = default;

  virtual uint16_t port() const = 0;
  /// Answers from now on.
  virtual void start(Answer answer) = 0;
  /// Waits for answers under way, then closes all connections.
  virtual void stop() = 0;
};

/// What an address to listen at ("127.0.0.1", "0.0.0.0") reaches.
struct Reach {
  bool is_loopback = false;
  /// All addresses of the machine.
  bool is_any = false;
};
/// Invalid: it is no address.
arrow::Result<Reach> reach_of(const std::string& address);

}  // namespace paceline::dashboard
