// WebSocket: what a server sends over one (RFC 6455). Its other end here only listens; it answers pings.
//
// Not thread-safe.
#pragma once

#include <arrow/result.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "paceline/core/http/http_client.h"

namespace paceline {

/// Makes messages of bytes as they come from a server. Pure.
class WebSocketReader {
 public:
  struct Message {
    enum class Kind { text, ping, close } kind = Kind::text;
    std::string content;
  };
  void feed(std::string_view bytes) { bytes_.append(bytes); }
  /// The next that is there whole. Invalid: this is no server of WebSockets, or a message is beyond all measure.
  arrow::Result<std::optional<Message>> next();

 private:
  std::string bytes_;
  std::string parts_;  // of a message whose last part has not come
};

class WebSocket {
 public:
  /// Opens `path` at the server that `options` name, with their headers. Blocks for seconds at most. IOError: it cannot
  /// be had there.
  static arrow::Result<std::unique_ptr<WebSocket>> open(const HttpClient::Options& options, const std::string& path);
  ~WebSocket();

  /// Readable when there may be something to receive.
  int descriptor() const;

  struct Received {
    std::string text;  // of whole messages
    bool is_closed = false;
  };
  /// What has come; never waits.
  arrow::Result<Received> receive();

 private:
  struct Connection;
  explicit WebSocket(std::unique_ptr<Connection> connection);

  std::unique_ptr<Connection> connection_;
  WebSocketReader reader_;
};

}  // namespace paceline
