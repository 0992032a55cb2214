#include "paceline/core/http/web_socket.h"

#include <arrow/util/base64.h>
#include <poll.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <random>
#include <utility>

#include "paceline/core/http/curl_internal.h"

namespace paceline {
namespace {

constexpr long kOpenSeconds = 5;
constexpr std::chrono::seconds kAnswerPatience{10};
constexpr size_t kMostMessageBytes = size_t{64} << 20;
constexpr size_t kMostAnswerBytes = 64 * 1024;

enum Opcode : uint8_t { kContinuation = 0, kText = 1, kBinary = 2, kClose = 8, kPing = 9, kPong = 10 };

struct Frame {
  bool is_last = false;
  uint8_t opcode = 0;
  std::string_view content;
  size_t bytes = 0;  // with its head
};

// Nothing while the frame is not there whole.
arrow::Result<std::optional<Frame>> first_frame(std::string_view bytes) {
  const auto byte = [&bytes](size_t at) { return static_cast<uint8_t>(bytes[at]); };
  if (bytes.size() < 2) return std::nullopt;
  if ((byte(0) & 0x70) != 0 || (byte(1) & 0x80) != 0) {
    return arrow::Status::Invalid("the server does not keep to the protocol of WebSockets");
  }
  uint64_t length = byte(1);
  size_t head = 2;
  if (length >= 126) {
    const size_t more = length == 126 ? 2 : 8;
    head += more;
    if (bytes.size() < head) return std::nullopt;
    length = 0;
    for (size_t at = 2; at < head; ++at) length = length << 8 | byte(at);
  }
  if (length > kMostMessageBytes) return arrow::Status::Invalid("the server sends a message of ", length, " bytes");
  if (bytes.size() < head + length) return std::nullopt;
  return Frame{(byte(0) & 0x80) != 0, static_cast<uint8_t>(byte(0) & 0x0f), bytes.substr(head, length), head + length};
}

// Clients have to mask what they send.
std::string masked_frame(Opcode opcode, std::string_view content) {
  std::random_device random;
  const uint32_t mask = random();
  std::string frame{static_cast<char>(0x80 | opcode), static_cast<char>(0x80 | content.size())};
  for (int i = 0; i < 4; ++i) frame.push_back(static_cast<char>(mask >> (8 * i)));
  for (size_t i = 0; i < content.size(); ++i) frame.push_back(static_cast<char>(content[i] ^ (mask >> (8 * (i % 4)))));
  return frame;
}

struct Address {
  std::string user;  // "NAME:PASSWORD"
  std::string host;  // with the port
  std::string path;
};

Address parsed(const std::string& url) {
  const size_t begin = url.find("://") == std::string::npos ? 0 : url.find("://") + 3;
  const size_t slash = url.find('/', begin);
  std::string authority = url.substr(begin, slash == std::string::npos ? slash : slash - begin);
  Address address{.user = "", .host = "", .path = slash == std::string::npos ? "" : url.substr(slash)};
  if (const size_t at = authority.rfind('@'); at != std::string::npos) {
    address.user = authority.substr(0, at);
    authority.erase(0, at + 1);
  }
  address.host = std::move(authority);
  while (address.path.ends_with('/')) address.path.pop_back();
  return address;
}

std::string handshake(const HttpClient::Options& options, const std::string& path) {
  const Address address = parsed(options.base);
  std::random_device random;
  std::string key;
  for (int i = 0; i < 16; ++i) key.push_back(static_cast<char>(random()));
  std::string text =
      "GET " + address.path + "/" + path + " HTTP/1.1\r\nHost: " + address.host +
      "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " +
      arrow::util::base64_encode(key) + "\r\n";
  if (!address.user.empty()) text += "Authorization: Basic " + arrow::util::base64_encode(address.user) + "\r\n";
  for (const std::string& header : options.headers) text += header + "\r\n";
  return text + "\r\n";
}

}  // namespace

arrow::Result<std::optional<WebSocketReader::Message>> WebSocketReader::next() {
  while (true) {
    ARROW_ASSIGN_OR_RAISE(const std::optional<Frame> frame, first_frame(bytes_));
    if (!frame) return std::nullopt;
    std::string content(frame->content);
    const Frame taken = *frame;
    bytes_.erase(0, taken.bytes);
    switch (taken.opcode) {
      case kContinuation:
      case kText:
      case kBinary:
        parts_.append(content);
        if (parts_.size() > kMostMessageBytes) return arrow::Status::Invalid("the server sends a message without end");
        if (!taken.is_last) break;
        return Message{Message::Kind::text, std::exchange(parts_, {})};
      case kPing:
        return Message{Message::Kind::ping, std::move(content)};
      case kClose:
        return Message{Message::Kind::close, std::move(content)};
      default:
        break;  // an answer to what was never asked
    }
  }
}

struct WebSocket::Connection {
  explicit Connection(const Curl& functions) : curl(functions) {}
  Connection(const Connection&) = delete;
  ~Connection() { curl.easy_cleanup(easy); }

  arrow::Status wait(short events, std::chrono::steady_clock::time_point deadline) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd waited{socket, events, 0};
    if (left.count() > 0 && ::poll(&waited, 1, static_cast<int>(left.count())) > 0) return arrow::Status::OK();
    return arrow::Status::IOError("the server does not answer");
  }

  arrow::Status send(std::string_view bytes) {
    const auto deadline = std::chrono::steady_clock::now() + kAnswerPatience;
    while (!bytes.empty()) {
      size_t sent = 0;
      const CURLcode code = curl.easy_send(easy, bytes.data(), bytes.size(), &sent);
      if (code == CURLE_OK) {
        bytes.remove_prefix(sent);
      } else if (code == CURLE_AGAIN) {
        ARROW_RETURN_NOT_OK(wait(POLLOUT, deadline));
      } else {
        return arrow::Status::IOError(curl.easy_strerror(code));
      }
    }
    return arrow::Status::OK();
  }

  // Appends what is there; false at the end of the connection.
  arrow::Result<bool> receive(std::string& text) {
    std::array<char, 16384> bytes;
    while (true) {
      size_t count = 0;
      const CURLcode code = curl.easy_recv(easy, bytes.data(), bytes.size(), &count);
      if (code == CURLE_AGAIN) return true;
      if (code != CURLE_OK) return arrow::Status::IOError(curl.easy_strerror(code));
      if (count == 0) return false;
      text.append(bytes.data(), count);
    }
  }

  const Curl& curl;
  CURL* easy = curl.easy_init();
  curl_socket_t socket = CURL_SOCKET_BAD;
};

WebSocket::WebSocket(std::unique_ptr<Connection> connection) : connection_(std::move(connection)) {}
WebSocket::~WebSocket() = default;

arrow::Result<std::unique_ptr<WebSocket>> WebSocket::open(const HttpClient::Options& options, const std::string& path) {
  ARROW_ASSIGN_OR_RAISE(const Curl& curl, Curl::load());
  auto connection = std::make_unique<Connection>(curl);
  CURL* const easy = connection->easy;
  curl.easy_setopt(easy, CURLOPT_URL, options.base.c_str());
  curl.easy_setopt(easy, CURLOPT_CONNECT_ONLY, 1L);
  curl.easy_setopt(easy, CURLOPT_HTTPPROXYTUNNEL, 1L);
  curl.easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl.easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, kOpenSeconds);
  if (const CURLcode code = curl.easy_perform(easy); code != CURLE_OK) {
    return arrow::Status::IOError(curl.easy_strerror(code));
  }
  curl.easy_getinfo(easy, CURLINFO_ACTIVESOCKET, &connection->socket);
  ARROW_RETURN_NOT_OK(connection->send(handshake(options, path)));
  const auto deadline = std::chrono::steady_clock::now() + kAnswerPatience;
  std::string answer;
  size_t end = std::string::npos;
  while ((end = answer.find("\r\n\r\n")) == std::string::npos) {
    ARROW_RETURN_NOT_OK(connection->wait(POLLIN, deadline));
    ARROW_ASSIGN_OR_RAISE(const bool goes_on, connection->receive(answer));
    if (end = answer.find("\r\n\r\n"); end != std::string::npos) break;
    if (!goes_on || answer.size() > kMostAnswerBytes) return arrow::Status::IOError("the server gives no answer");
  }
  const std::string line = answer.substr(0, answer.find("\r\n"));
  if (!line.starts_with("HTTP/1.1 101")) return arrow::Status::IOError("the server opens no WebSocket: ", line);
  std::unique_ptr<WebSocket> opened(new WebSocket(std::move(connection)));
  opened->reader_.feed(std::string_view(answer).substr(end + 4));
  return opened;
}

int WebSocket::descriptor() const {
  return connection_->socket;
}

arrow::Result<WebSocket::Received> WebSocket::receive() {
  std::string bytes;
  ARROW_ASSIGN_OR_RAISE(const bool goes_on, connection_->receive(bytes));
  reader_.feed(bytes);
  Received received{.text = "", .is_closed = !goes_on};
  while (true) {
    ARROW_ASSIGN_OR_RAISE(const auto message, reader_.next());
    if (!message) return received;
    switch (message->kind) {
      case WebSocketReader::Message::Kind::text:
        received.text += message->content;
        break;
      case WebSocketReader::Message::Kind::ping:
        ARROW_RETURN_NOT_OK(connection_->send(masked_frame(kPong, message->content.substr(0, 125))));
        break;
      case WebSocketReader::Message::Kind::close:
        received.is_closed = true;
        break;
    }
  }
}

}  // namespace paceline
