#include "paceline/dashboard/http_server.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <cctype>
#include <csignal>
#include <deque>
#include <mutex>
#include <set>
#include <stop_token>
#include <thread>

#include "paceline/core/posix/thread.h"
#include "paceline/dashboard/access/guard.h"
#include "paceline/dashboard/access/try_limit.h"
#include "paceline/dashboard/problem.h"

namespace paceline::dashboard {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;

constexpr size_t kAnswering = 16;  // threads: two actions, eight profiles and a verification may hold one for a minute

arrow::Result<asio::ip::address> parse_address(const std::string& text) {
  beast::error_code error;
  auto address = asio::ip::make_address(text, error);
  if (error) return arrow::Status::Invalid("\"", text, "\" is no address; wanted one like 127.0.0.1");
  return address;
}

// As people write it: an IPv4 address at a socket of both kinds is one.
std::string address_text(const asio::ip::address& address) {
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).to_string();
  }
  return address.to_string();
}

// Also of an IPv4 address at a socket of both kinds.
bool is_loopback(const asio::ip::address& address) {
  if (!address.is_v6() || !address.to_v6().is_v4_mapped()) return address.is_loopback();
  return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).is_loopback();
}

class Server;

// A connection: one request after the other. On the server's thread but for deliver().
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, Server& server, std::string peer);
  const std::string& peer() const { return peer_; }
  void read(bool first);
  void close();

 private:
  void read_head();
  void read_body();
  void take();
  void tell_when_gone(std::stop_source given_up);
  void send(Response response);
  void refuse(const beast::error_code& error);
  void drain();
  void begin_stream(const Response& response);
  bool deliver(const std::string& text);
  void write_pending();
  void watch_for_end();

  beast::tcp_stream stream_;
  Server& server_;
  const std::string peer_;  // its address
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  Request request_;
  std::shared_ptr<void> message_;  // what is being sent

  uint64_t subscription_ = 0;
  std::mutex mutex_;
  std::deque<std::string> pending_;
  size_t pending_bytes_ = 0;
  bool is_writing_ = false;
  std::array<char, 64> ignored_{};
};

class Server final : public HttpServer {
 public:
  Server(tcp::endpoint endpoint, Feed& feed, const HttpLimits& limits)
      : limits(limits), feed(feed), acceptor_(context), endpoint_(std::move(endpoint)) {}
  ~Server() override { stop(); }

  beast::error_code open() {
    beast::error_code error;
    error = acceptor_.open(endpoint_.protocol(), error);
    if (!error) error = acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) error = acceptor_.bind(endpoint_, error);
    if (!error) error = acceptor_.listen(asio::socket_base::max_listen_connections, error);
    ::fcntl(acceptor_.native_handle(), F_SETFD, FD_CLOEXEC);
    if (!error) port_ = acceptor_.local_endpoint(error).port();
    return error;
  }
  uint16_t port() const override { return port_; }

  void start(Answer to_all) override {
    answer = std::move(to_all);
    accept();
    thread_ = start_thread([this] { context.run(); });
  }

  void stop() override {
    if (!thread_.joinable()) return;
    asio::post(context, [this] {
      beast::error_code ignored;
      ignored = acceptor_.close(ignored);
    });
    answering_->stop();
    answering_->join();
    asio::post(context, [this] {
      for (const auto& connection : std::set(connections)) connection->close();
      connections.clear();
      context.stop();
    });
    thread_.join();
  }

  // On one of the threads that may block.
  template <class Work>
  void in_background(Work work) {
    asio::post(*answering_, std::move(work));
  }

  asio::io_context context{1};
  const HttpLimits limits;
  Feed& feed;
  Answer answer;
  std::set<std::shared_ptr<Connection>> connections;
  size_t streams = 0;

 private:
  void accept() {
    acceptor_.async_accept([this](const beast::error_code& error, tcp::socket socket) {
      if (error == asio::error::operation_aborted || !acceptor_.is_open()) return;
      beast::error_code has_gone;
      const asio::ip::address peer =
          socket.is_open() ? socket.remote_endpoint(has_gone).address() : asio::ip::address();
      if (!error && !has_gone && has_room_for(peer)) {
        const auto connection = std::make_shared<Connection>(std::move(socket), *this, address_text(peer));
        connections.insert(connection);
        connection->read(true);
      }
      if (!error) return accept();
      // No descriptors are left, say: not at once again.
      pause_.expires_after(std::chrono::milliseconds(100));
      pause_.async_wait([this](const beast::error_code& over) {
        if (!over && acceptor_.is_open()) accept();
      });
    });
  }

  // What comes from this machine may be a proxy, and stand for many.
  bool has_room_for(const asio::ip::address& peer) const {
    if (connections.size() >= limits.connections) return false;
    const auto is_of_peer = [peer = counted_as(address_text(peer))](const auto& one) {
      return counted_as(one->peer()) == peer;
    };
    return is_loopback(peer) ||
           static_cast<size_t>(std::ranges::count_if(connections, is_of_peer)) < limits.connections_of_one;
  }

  // With all signals blocked, as start_thread() has it: they are the program's.
  static std::unique_ptr<asio::thread_pool> start_pool() {
    const BlockedSignals blocked;
    return std::make_unique<asio::thread_pool>(kAnswering);
  }

  tcp::acceptor acceptor_;
  asio::steady_timer pause_{context};
  tcp::endpoint endpoint_;
  uint16_t port_ = 0;
  std::unique_ptr<asio::thread_pool> answering_ = start_pool();
  std::thread thread_;
};

Connection::Connection(tcp::socket socket, Server& server, std::string peer)
    : stream_(std::move(socket)), server_(server), peer_(std::move(peer)) {}

void Connection::close() {
  beast::error_code ignored;
  ignored = stream_.socket().shutdown(tcp::socket::shutdown_both, ignored);
  stream_.close();
  if (subscription_ != 0) {
    server_.feed.unsubscribe(std::exchange(subscription_, 0));
    --server_.streams;
  }
  server_.connections.erase(shared_from_this());
}

// The next request may take its time to come, but not to be told.
void Connection::read(bool first) {
  parser_.emplace();
  parser_->header_limit(server_.limits.header_bytes);
  parser_->body_limit(server_.limits.body_bytes);
  if (first || buffer_.size() > 0) return read_head();
  stream_.expires_after(server_.limits.idle);
  stream_.async_read_some(buffer_.prepare(4096),
                          [self = shared_from_this()](const beast::error_code& error, size_t count) {
                            if (error) return self->close();
                            self->buffer_.commit(count);
                            self->read_head();
                          });
}

void Connection::read_head() {
  stream_.expires_after(server_.limits.head);
  http::async_read_header(stream_, buffer_, *parser_,
                          [self = shared_from_this()](const beast::error_code& error, size_t) {
                            if (error) return self->refuse(error);
                            self->read_body();
                          });
}

void Connection::read_body() {
  stream_.expires_after(server_.limits.head);
  http::async_read(stream_, buffer_, *parser_, [self = shared_from_this()](const beast::error_code& error, size_t) {
    if (error) return self->refuse(error);
    self->take();
  });
}

void Connection::take() {
  const auto& message = parser_->get();
  request_ = {
      .method = std::string(message.method_string()), .target = std::string(message.target()), .body = message.body()};
  for (const auto& field : message) {
    std::string name(field.name_string());
    std::ranges::transform(name, name.begin(), [](unsigned char letter) { return std::tolower(letter); });
    request_.headers.emplace_back(std::move(name), std::string(field.value()));
  }
  beast::error_code ignored;
  request_.peer = peer_;
  request_.own_address = address_text(stream_.socket().local_endpoint(ignored).address());
  stream_.expires_never();
  const std::stop_source given_up;
  request_.given_up = given_up.get_token();
  tell_when_gone(given_up);
  server_.in_background([self = shared_from_this()] {
    Response response = self->server_.answer(self->request_);
    asio::post(self->server_.context, [self, response = std::move(response)]() mutable {
      self->stream_.cancel();  // tell_when_gone()
      self->send(std::move(response));
    });
  });
}

// Of a connection on which more is sent meanwhile, it does not know.
void Connection::tell_when_gone(std::stop_source given_up) {
  stream_.socket().async_wait(tcp::socket::wait_read, [self = shared_from_this(), given_up = std::move(given_up)](
                                                          const beast::error_code& error) mutable {
    if (error) return;
    char next = 0;
    const ssize_t got = ::recv(self->stream_.socket().native_handle(), &next, 1, MSG_PEEK | MSG_DONTWAIT);
    const bool is_reset = got < 0 && errno != EAGAIN && errno != EINTR;
    if (got == 0 || is_reset) given_up.request_stop();
  });
}

void Connection::send(Response response) {
  if (!stream_.socket().is_open()) return;
  if (response.events && request_.method != "HEAD") {
    if (server_.streams < server_.limits.streams) return begin_stream(response);
    response = problem(503, "as many pages watch already as this server allows", "close some");
    add_security_headers(response);
  }
  const bool keeps = parser_->is_header_done() && parser_->is_done() && parser_->keep_alive();
  const bool is_head = request_.method == "HEAD";
  const auto message = std::make_shared<http::response<http::string_body>>(static_cast<http::status>(response.status),
                                                                           parser_->get().version());
  message->set(http::field::content_type, response.content_type);
  for (const auto& [name, value] : response.headers) message->set(name, value);
  message->keep_alive(keeps);
  message->content_length(response.body.size());
  if (!is_head) message->body() = std::move(response.body);
  message_ = message;
  stream_.expires_after(server_.limits.write);
  http::async_write(stream_, *message, [self = shared_from_this(), keeps](const beast::error_code& error, size_t) {
    self->message_ = nullptr;
    if (error) return self->close();
    if (!keeps) return self->drain();
    self->read(false);
  });
}

// Of a request that could not be read whole.
void Connection::refuse(const beast::error_code& error) {
  request_ = {};
  Response response;
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    response =
        problem(431, "the head of the request has more than " + std::to_string(server_.limits.header_bytes) + " bytes",
                "send less");
  } else if (error == http::error::body_limit) {
    response =
        problem(413, "the body of the request has more than " + std::to_string(server_.limits.body_bytes) + " bytes",
                "send less");
  } else if (error.category() == http::make_error_code(http::error::bad_version).category() &&
             error != http::error::end_of_stream && error != http::error::partial_message) {
    response = problem(400, "the request is no HTTP/1.1: " + error.message(), "speak HTTP/1.1");
  } else {
    return close();  // it went away, or took too long
  }
  add_security_headers(response);
  parser_.emplace();  // what it says is not to be believed: the connection is closed behind the answer
  send(std::move(response));
}

// A client that still sends would not read the answer if the connection were closed at once.
void Connection::drain() {
  beast::error_code ignored;
  ignored = stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
  stream_.expires_after(std::chrono::seconds(2));
  const auto read_on = std::make_shared<std::function<void()>>();
  *read_on = [self = shared_from_this(), weak = std::weak_ptr(read_on)] {
    self->stream_.async_read_some(asio::buffer(self->ignored_),
                                  [self, next = weak.lock()](const beast::error_code& error, size_t) {
                                    if (error) return self->close();
                                    (*next)();
                                  });
  };
  (*read_on)();
}

void Connection::begin_stream(const Response& response) {
  const EventStream& events = *response.events;
  ++server_.streams;
  std::string head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n";
  for (const auto& [name, value] : response.headers) head += name + ": " + value + "\r\n";
  deliver(head + "\r\n");
  watch_for_end();
  subscription_ =
      server_.feed.subscribe(events.topics, events.last_event_id, [weak = weak_from_this()](const std::string& text) {
        const auto self = weak.lock();
        return self != nullptr && self->deliver(text);
      });
}

// From any thread.
bool Connection::deliver(const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (pending_bytes_ > server_.limits.stream_bytes) return false;
  pending_bytes_ += text.size();
  pending_.push_back(text);
  if (!std::exchange(is_writing_, true)) {
    asio::post(server_.context, [self = shared_from_this()] { self->write_pending(); });
  }
  return true;
}

void Connection::write_pending() {
  const auto text = std::make_shared<std::string>();
  {
    const std::lock_guard lock(mutex_);
    for (const std::string& one : pending_) *text += one;
    pending_.clear();
    is_writing_ = !text->empty();
    if (!is_writing_) return;
  }
  if (!stream_.socket().is_open()) return;
  stream_.expires_after(server_.limits.write);
  asio::async_write(stream_, asio::buffer(*text),
                    [self = shared_from_this(), text](const beast::error_code& error, size_t) {
                      if (error) return self->close();
                      self->stream_.expires_never();
                      {
                        const std::lock_guard lock(self->mutex_);
                        self->pending_bytes_ -= text->size();
                      }
                      self->write_pending();
                    });
}

// It sends nothing more; the end of what it sends is the end of the connection.
void Connection::watch_for_end() {
  stream_.socket().async_read_some(asio::buffer(ignored_),
                                   [self = shared_from_this()](const beast::error_code& error, size_t) {
                                     if (error) return self->close();
                                     self->watch_for_end();
                                   });
}

}  // namespace

arrow::Result<Reach> reach_of(const std::string& address) {
  ARROW_ASSIGN_OR_RAISE(const auto parsed, parse_address(address));
  return Reach{.is_loopback = parsed.is_loopback(), .is_any = parsed.is_unspecified()};
}

arrow::Result<std::unique_ptr<HttpServer>> HttpServer::listen(const std::string& address, uint16_t port, Feed& feed,
                                                              const HttpLimits& limits) {
  ARROW_ASSIGN_OR_RAISE(const auto parsed, parse_address(address));
  auto server = std::make_unique<Server>(tcp::endpoint(parsed, port), feed, limits);
  if (const auto failed = server->open()) {
    return arrow::Status::IOError("cannot listen at ", address, port == 0 ? "" : " port " + std::to_string(port), ": ",
                                  failed.message());
  }
  return server;
}

}  // namespace paceline::dashboard
