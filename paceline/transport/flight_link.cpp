#include "paceline/transport/flight_link.h"

#include <arrow/flight/client.h>
#include <arrow/flight/server.h>

#include <algorithm>
#include <charconv>

namespace paceline::transport {
namespace {

namespace flight = arrow::flight;

// Frames are metadata of messages without data. No metadata and no data: the end of the stream.
arrow::Result<std::shared_ptr<arrow::Buffer>> frame_of(arrow::Result<flight::FlightStreamChunk> chunk) {
  if (!chunk.ok()) return brief(chunk.status());
  if (chunk->data) return arrow::Status::Invalid("the peer sent a record batch, which is no frame");
  return std::move(chunk->app_metadata);
}

class ClientLink final : public Link {
 public:
  ClientLink(std::unique_ptr<flight::FlightClient> client, flight::FlightClient::DoExchangeResult stream)
      : client_(std::move(client)), reader_(std::move(stream.reader)), writer_(std::move(stream.writer)) {}

  ~ClientLink() override {
    // Without it the writer's destructor would wait for the server to end the call.
    reader_->Cancel();
    (void)writer_->Close();
  }

  arrow::Result<std::shared_ptr<arrow::Buffer>> read() override { return frame_of(reader_->Next()); }

  arrow::Status write(std::string frame) override {
    return brief(writer_->WriteMetadata(arrow::Buffer::FromString(std::move(frame))));
  }

  void finish_writing() override { (void)writer_->DoneWriting(); }
  void close() override { reader_->Cancel(); }

 private:
  // Destroyed last: the stream is one of its calls.
  std::unique_ptr<flight::FlightClient> client_;
  std::unique_ptr<flight::FlightStreamReader> reader_;
  std::unique_ptr<flight::FlightStreamWriter> writer_;
};

}  // namespace

arrow::Result<std::pair<std::string, int>> parse_address(const std::string& address) {
  const size_t colon = address.rfind(':');
  std::string host = address.substr(0, std::min(colon, address.size()));
  const bool is_bracketed = host.starts_with('[') && host.ends_with(']');
  int port = -1;
  if (colon != std::string::npos) {
    const char* const end = address.data() + address.size();
    const auto parsed = std::from_chars(address.data() + colon + 1, end, port);
    if (parsed.ec != std::errc() || parsed.ptr != end) port = -1;
  }
  const bool is_host = !host.empty() && host.find_first_of("/@?# \t\n") == std::string::npos &&
                       (is_bracketed ? host.size() > 2 : host.find_first_of("[]:") == std::string::npos);
  if (!is_host || port < 0 || port > 65535) {
    return arrow::Status::Invalid("not an address: wanted HOST:PORT or [IPV6]:PORT, got ", address);
  }
  return std::pair(std::move(host), port);
}

arrow::Status brief(const arrow::Status& status) {
  if (status.ok()) return status;
  const std::string& message = status.message();
  const size_t end = message.find(". gRPC client debug context");
  return arrow::Status(status.code(), message.substr(0, end), status.detail());
}

arrow::Result<std::shared_ptr<Link>> open_flight_link(const std::string& address, const Credentials& credentials,
                                                      const std::string& hello, std::chrono::milliseconds patience) {
  ARROW_ASSIGN_OR_RAISE(const auto host_and_port, parse_address(address));
  ARROW_ASSIGN_OR_RAISE(const auto location, flight::Location::ForGrpcTls(host_and_port.first, host_and_port.second));
  auto options = flight::FlightClientOptions::Defaults();
  options.tls_root_certs = credentials.authority;
  options.cert_chain = credentials.certificate;
  options.private_key = credentials.key;
  // The certificate is the run's, whatever address leads there.
  options.override_hostname = kControllerName;
  const auto limit = static_cast<int>(patience.count());
  options.generic_options = {// So long the attempt to connect may take, however little answers.
                             {"grpc.min_reconnect_backoff_ms", limit},
                             {"grpc.initial_reconnect_backoff_ms", limit},
                             // A proxy for the web leads nowhere here, and would see a stream that never ends.
                             {"grpc.enable_http_proxy", 0},
                             {"grpc.max_receive_message_length", 2 << 20},
                             // A ping with each message would measure how large the window should be: half of what a
                             // small message costs at both ends. This window is large enough for packages.
                             {"grpc.http2.bdp_probe", 0},
                             {"grpc.http2.lookahead_bytes", 4 << 20},
                             // A stream that broke is a new connection's business (resumable_channel.h).
                             {"grpc.enable_retries", 0}};
  ARROW_ASSIGN_OR_RAISE(auto client, flight::FlightClient::Connect(location, options));
  flight::FlightCallOptions call;
  call.headers.emplace_back(kTokenHeader, credentials.token);
  auto stream = client->DoExchange(call, flight::FlightDescriptor::Command(hello));
  if (!stream.ok()) return brief(stream.status());
  return std::make_shared<ClientLink>(std::move(client), *std::move(stream));
}

arrow::Result<std::shared_ptr<arrow::Buffer>> ServerLink::read() {
  if (closed_) return arrow::Status::IOError("the connection was closed at this end");
  return frame_of(reader_->Next());
}

arrow::Status ServerLink::write(std::string frame) {
  const std::lock_guard lock(write_mutex_);
  if (writer_ == nullptr || closed_) return arrow::Status::IOError("the connection is over");
  return brief(writer_->WriteMetadata(arrow::Buffer::FromString(std::move(frame))));
}

void ServerLink::close() {
  closed_ = true;
}

void ServerLink::detach() {
  const std::lock_guard lock(write_mutex_);
  writer_ = nullptr;
}

}  // namespace paceline::transport
