// A fake agent: the other end of a worker's channel, driven by the test's own thread.
//
//     FakeAgent agent;
//     auto connection = worker::connect_over(agent.worker_end(), clock, options).ValueOrDie();
//     agent.expect<rpc::Joined>();
//     agent.send(rpc::Assign{.rank = {1}, .world_size = 2});
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "paceline/core/posix/socket_pair.h"
#include "paceline/rpc/blocking_socket.h"
#include "paceline/rpc/messages.h"

namespace paceline::testing {

class FakeAgent {
 public:
  /// Sends `welcome` at once; `identity` goes with all that is sent without another.
  explicit FakeAgent(const rpc::Welcome& welcome = {},
                     const Identity& identity = {.epoch = {1}, .attempt = {1}, .worker = {7}})
      : identity_(identity) {
    auto [agent, worker] = make_socket_pair().ValueOrDie();
    socket_ = std::make_unique<rpc::BlockingSocket>(std::move(agent));
    worker_end_ = std::move(worker);
    send(welcome);
  }

  /// The worker's end; once.
  Descriptor worker_end() { return std::move(worker_end_); }
  rpc::BlockingSocket& socket() { return *socket_; }
  const Identity& identity() const { return identity_; }

  template <class Message>
  void send(const Message& message) {
    send(message, identity_);
  }
  template <class Message>
  void send(const Message& message, const Identity& identity) {
    ASSERT_TRUE(socket_->send(rpc::pack(message, identity)).ok());
  }

  /// The next message but heartbeats, with its envelope; a failure of the test where another type comes.
  template <class Message>
  std::pair<Message, rpc::Envelope> expect() {
    while (true) {
      auto envelope = socket_->receive();
      if (!envelope.ok() || !*envelope) {
        ADD_FAILURE() << "wanted a " << Message::kType << ", but the worker's channel is closed";
        return {};
      }
      if ((*envelope)->type == rpc::Heartbeat::kType && Message::kType != (*envelope)->type) continue;
      auto message = rpc::unpack<Message>(**envelope);
      if (!message.ok()) ADD_FAILURE() << message.status();
      return {message.ok() ? *message : Message{}, std::move(**envelope)};
    }
  }

  /// The agent is gone.
  void vanish() { socket_.reset(); }

 private:
  Identity identity_;
  Descriptor worker_end_;
  std::unique_ptr<rpc::BlockingSocket> socket_;
};

}  // namespace paceline::testing
