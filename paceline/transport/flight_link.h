// Links over Arrow Flight: one bidirectional stream (DoExchange) with mutual TLS, whose messages' metadata are the
// frames.
//
// The agent's end opens the connection; the controller's lives within the call of a Flight server.
#pragma once

#include <arrow/result.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "paceline/transport/link.h"
#include "paceline/transport/trust.h"

namespace arrow::flight {
class FlightMessageReader;
class FlightMessageWriter;
}  // namespace arrow::flight

namespace paceline::transport {

/// The header of a call that holds the token.
inline constexpr const char* kTokenHeader = "paceline-token";

/// Connects to `address`, "host:port" or "[IPv6]:port", and says `hello`. Takes `patience` at most where nobody
/// answers. Invalid: `address` is none. IOError: nobody there, or somebody else; the message says what happened.
arrow::Result<std::shared_ptr<Link>> open_flight_link(const std::string& address, const Credentials& credentials,
                                                      const std::string& hello, std::chrono::milliseconds patience);

/// The controller's end, for the duration of the call that reader and writer belong to.
///
/// Flight lets a server end a call only by returning from it. So close() ends what comes after: a read() that waits
/// goes on until the agent or the kernel ends the connection, or the server is shut down.
class ServerLink final : public Link {
 public:
  ServerLink(arrow::flight::FlightMessageReader& reader, arrow::flight::FlightMessageWriter& writer)
      : reader_(&reader), writer_(&writer) {}

  arrow::Result<std::shared_ptr<arrow::Buffer>> read() override;
  arrow::Status write(std::string frame) override;
  void finish_writing() override {}  // the agent's end finishes, and the call with it
  void close() override;
  /// The call returns: waits for a write() that is under way; others fail from now on.
  void detach();

 private:
  arrow::flight::FlightMessageReader* const reader_;
  std::mutex write_mutex_;
  arrow::flight::FlightMessageWriter* writer_;
  std::atomic<bool> closed_ = false;
};

/// "host:port" or "[IPv6]:port" as its parts; a host of IPv6 keeps its brackets. Invalid: neither.
arrow::Result<std::pair<std::string, int>> parse_address(const std::string& address);

/// `status` without the lines of internals that gRPC adds.
arrow::Status brief(const arrow::Status& status);

}  // namespace paceline::transport
