#include "paceline/transport/listener.h"

#include <arrow/flight/server.h>
#include <arrow/flight/server_middleware.h>

#include <netdb.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "paceline/core/posix/descriptor.h"
#include "paceline/core/posix/descriptor_limit.h"
#include "paceline/transport/flight_link.h"
#include "paceline/transport/hello.h"
#include "paceline/transport/resumable_channel.h"

namespace paceline::transport {
namespace {

namespace flight = arrow::flight;

arrow::Status nothing_to_say() {
  return flight::MakeFlightError(flight::FlightStatusCode::Unauthenticated, "refused");
}

// gRPC says neither that an address is taken nor that this machine has no such one.
arrow::Status can_listen(const std::string& host, int port) {
  addrinfo* found = nullptr;
  const addrinfo wanted{.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
  const bool is_bracketed = host.starts_with('[');
  const std::string name = is_bracketed ? host.substr(1, host.size() - 2) : host;
  const int error = ::getaddrinfo(name.c_str(), std::to_string(port).c_str(), &wanted, &found);
  if (error != 0) {
    return arrow::Status::IOError("cannot listen at ", host, ":", port, ": ", ::gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
  const Descriptor socket(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(socket.get(), found->ai_addr, found->ai_addrlen) == 0) return arrow::Status::OK();
  const char* const why = errno == EADDRINUSE      ? "another process listens there"
                          : errno == EADDRNOTAVAIL ? "this machine has no such address"
                                                   : std::strerror(errno);
  return arrow::Status::IOError("cannot listen at ", host, ":", port, ": ", why);
}

// Lets calls with the token pass, before anything of them is read.
class TokenGate final : public flight::ServerMiddlewareFactory {
 public:
  explicit TokenGate(std::string token) : token_(std::move(token)) {}

  arrow::Status StartCall(const flight::CallInfo& call, const flight::ServerCallContext& context,
                          std::shared_ptr<flight::ServerMiddleware>*) override {
    const auto [begin, end] = context.incoming_headers().equal_range(kTokenHeader);
    const bool is_shown = begin != end && is_same_token(std::string(begin->second), token_);
    if (!is_shown || call.method != flight::FlightMethod::DoExchange) return nothing_to_say();
    return arrow::Status::OK();
  }

 private:
  const std::string token_;
};

class FlightListener final : public Listener, public flight::FlightServerBase {
 public:
  explicit FlightListener(Options options)
      : options_(std::move(options)), threads_(std::make_shared<SharedThreads>()) {}

  ~FlightListener() override {
    if (is_open_) shut_down();
    threads_->stop();
  }

  arrow::Status listen() {
    ARROW_ASSIGN_OR_RAISE(const auto host_and_port, parse_address(options_.address));
    host_ = host_and_port.first;
    ARROW_ASSIGN_OR_RAISE(const auto location, flight::Location::ForGrpcTls(host_, host_and_port.second));
    // Whoever connects has a descriptor of this process, until it has proved itself or its time is over.
    raise_descriptor_limit();
    flight::FlightServerOptions server(location);
    const Credentials& own = options_.credentials;
    server.tls_certificates = {{.pem_cert = own.certificate, .pem_key = own.key}};
    server.root_certificates = own.authority;
    server.verify_client = true;
    server.middleware = {{"token", std::make_shared<TokenGate>(own.token)}};
    ARROW_RETURN_NOT_OK(can_listen(host_, host_and_port.second));
    const arrow::Status started = Init(server);
    if (!started.ok()) return arrow::Status::IOError("cannot listen at ", options_.address, ": ", started.message());
    is_open_ = true;
    return arrow::Status::OK();
  }

  std::string address() const override { return host_ + ":" + std::to_string(port()); }

  arrow::Status DoExchange(const flight::ServerCallContext& context,
                           std::unique_ptr<flight::FlightMessageReader> reader,
                           std::unique_ptr<flight::FlightMessageWriter> writer) override {
    const auto link = std::make_shared<ServerLink>(*reader, *writer);
    const arrow::Status served = serve(link, reader->descriptor().cmd, context.peer());
    // What else the session does with the link must not reach the call, which is over.
    link->close();
    link->detach();
    return served;
  }

 private:
  struct Arrival {
    std::shared_ptr<Session> session;
    bool is_new = false;
  };

  // Only a hello that was understood is answered with reasons.
  arrow::Status serve(const std::shared_ptr<ServerLink>& link, const std::string& first, const std::string& address) {
    const auto hello = decode_hello(first);
    if (!hello.ok()) return refuse(*link, hello.status());
    const auto arrival = admit(*hello, address);
    if (!arrival.ok()) return refuse(*link, arrival.status());
    Session& session = *arrival->session;
    // Before the answer, which may not reach it: it comes again then, as one that is known.
    if (arrival->is_new) {
      options_.on_peer(std::make_unique<ResumableChannel>(arrival->session),
                       {.id = hello->peer, .name = hello->name, .address = address});
    }
    const Session::Resumption here = session.prepare();
    const arrow::Status answered = link->write(encode_hello_answer({.received = here.received}));
    // Whatever ends the connection is told to the channel, or is for the next connection to mend.
    (void)session.serve(here, link, hello->received);
    return answered;
  }

  static arrow::Status refuse(ServerLink& link, const arrow::Status& why) {
    return link.write(encode_hello_answer({.refused = why.message()}));
  }

  arrow::Result<Arrival> admit(const Hello& hello, const std::string& address) {
    if (hello.run != options_.run) return arrow::Status::Invalid("this is the controller of another run");
    const std::lock_guard lock(mutex_);
    if (is_shutting_down_) return arrow::Status::Invalid("the controller is ending");
    const auto found = sessions_.find(hello.peer);
    if (found != sessions_.end()) {
      ARROW_RETURN_NOT_OK(found->second->can_resume(hello.received));
      return Arrival{.session = found->second};
    }
    if (hello.resumed || hello.received > 0) {
      return arrow::Status::Invalid("the controller does not know the agent ", hello.name,
                                    ": it has given it up, or was restarted");
    }
    auto session = Session::make(threads_, {.peer = hello.name + " (" + address + ")",
                                            .lease = options_.lease,
                                            .on_end = [this, peer = hello.peer] { forget(peer); }});
    sessions_.emplace(hello.peer, session);
    return Arrival{.session = std::move(session), .is_new = true};
  }

  void forget(const std::string& peer) {
    std::shared_ptr<Session> session;
    const std::lock_guard lock(mutex_);
    const auto found = sessions_.find(peer);
    if (found == sessions_.end()) return;
    session = std::move(found->second);
    sessions_.erase(found);
  }

  void shut_down() {
    std::vector<std::shared_ptr<Session>> sessions;
    {
      const std::lock_guard lock(mutex_);
      is_shutting_down_ = true;
      for (const auto& [peer, session] : sessions_) sessions.push_back(session);
    }
    const auto deadline = std::chrono::steady_clock::now() + options_.linger;
    for (const auto& session : sessions) {
      if (!session->is_closing()) continue;
      const auto left = deadline - std::chrono::steady_clock::now();
      session->wait_ended(std::chrono::ceil<std::chrono::milliseconds>(std::max(left, {})));
    }
    for (const auto& session : sessions) session->end(arrow::Status::Cancelled("the controller has stopped listening"));
    // At once: it cancels the calls, also those whose agents are gone without a word.
    const auto now = std::chrono::system_clock::now();
    (void)Shutdown(&now);
  }

  const Options options_;
  const std::shared_ptr<SharedThreads> threads_;
  std::string host_;
  bool is_open_ = false;

  std::mutex mutex_;
  bool is_shutting_down_ = false;
  std::map<std::string, std::shared_ptr<Session>> sessions_;
};

}  // namespace

arrow::Result<std::unique_ptr<Listener>> Listener::open(Options options) {
  auto listener = std::make_unique<FlightListener>(std::move(options));
  ARROW_RETURN_NOT_OK(listener->listen());
  return listener;
}

}  // namespace paceline::transport
