#include "paceline/rpc/socket_channel.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include "paceline/core/posix/socket_pair.h"
#include "paceline/rpc/blocking_socket.h"
#include "paceline/testing/channel_conformance.h"

namespace paceline::testing {
namespace {

/// An event loop on a thread of its own.
class LoopThread {
 public:
  LoopThread() : work_(loop_.get_executor()), thread_([this] { loop_.run(); }) {}
  ~LoopThread() {
    loop_.stop();
    thread_.join();
  }
  boost::asio::io_context& loop() { return loop_; }

 private:
  boost::asio::io_context loop_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::thread thread_;
};

struct SocketChannels {
  static constexpr ChannelCapabilities kCapabilities{};
  LoopThread left, right;
  ChannelPair make() {
    auto [left_end, right_end] = make_socket_pair().ValueOrDie();
    return {rpc::make_socket_channel(left.loop(), std::move(left_end)),
            rpc::make_socket_channel(right.loop(), std::move(right_end))};
  }
};

/// Both ends on one loop, as in an agent.
struct SocketChannelsOnOneLoop {
  static constexpr ChannelCapabilities kCapabilities{};
  LoopThread thread;
  ChannelPair make() {
    auto [left_end, right_end] = make_socket_pair().ValueOrDie();
    return {rpc::make_socket_channel(thread.loop(), std::move(left_end)),
            rpc::make_socket_channel(thread.loop(), std::move(right_end))};
  }
};

/// A BlockingSocket with a receiving thread, so that the suite can drive it.
class BlockingChannel final : public rpc::Channel {
 public:
  explicit BlockingChannel(Descriptor socket) : socket_(std::move(socket)) {}
  ~BlockingChannel() override {
    close();
    if (thread_.joinable()) thread_.join();
  }

  void start(Handlers handlers) override {
    thread_ = std::thread([this, handlers = std::move(handlers)] {
      while (true) {
        auto envelope = socket_.receive();
        if (closed_) return;
        if (!envelope.ok()) return handlers.on_close(envelope.status());
        if (!*envelope) {
          socket_.shut_down();
          return handlers.on_close(arrow::Status::OK());
        }
        handlers.on_message(std::move(**envelope));
      }
    });
  }
  arrow::Status send(rpc::Envelope envelope) override { return socket_.send(std::move(envelope)); }
  void close() override {
    closed_ = true;
    socket_.shut_down();
  }

 private:
  rpc::BlockingSocket socket_;
  std::atomic<bool> closed_ = false;
  std::thread thread_;
};

struct SocketAndBlockingSocket {
  static constexpr ChannelCapabilities kCapabilities{};
  LoopThread thread;
  ChannelPair make() {
    auto [left, right] = make_socket_pair().ValueOrDie();
    return {rpc::make_socket_channel(thread.loop(), std::move(left)),
            std::make_unique<BlockingChannel>(std::move(right))};
  }
};

struct BlockingSocketAndSocket {
  static constexpr ChannelCapabilities kCapabilities{.send_never_blocks = false};
  LoopThread thread;
  ChannelPair make() {
    auto [left, right] = make_socket_pair().ValueOrDie();
    return {std::make_unique<BlockingChannel>(std::move(left)),
            rpc::make_socket_channel(thread.loop(), std::move(right))};
  }
};

INSTANTIATE_TYPED_TEST_SUITE_P(Socket, ChannelConformance, SocketChannels);
INSTANTIATE_TYPED_TEST_SUITE_P(SocketOnOneLoop, ChannelConformance, SocketChannelsOnOneLoop);
INSTANTIATE_TYPED_TEST_SUITE_P(SocketToBlocking, ChannelConformance, SocketAndBlockingSocket);
INSTANTIATE_TYPED_TEST_SUITE_P(BlockingToSocket, ChannelConformance, BlockingSocketAndSocket);

class SocketChannelAndRawPeer : public ::testing::Test {
 protected:
  SocketChannelAndRawPeer() {
    auto [raw, socket] = make_socket_pair().ValueOrDie();
    raw_ = std::move(raw);
    channel_ = rpc::make_socket_channel(thread_.loop(), std::move(socket));
    channel_->start(recorder_.handlers());
  }
  void write(std::string_view text) {
    ASSERT_EQ(send_some(raw_.get(), std::as_bytes(std::span(text)), {}).ValueOrDie(), text.size());
  }

  LoopThread thread_;
  ChannelRecorder recorder_;
  Descriptor raw_;
  std::unique_ptr<rpc::Channel> channel_;
};

TEST_F(SocketChannelAndRawPeer, APeerThatVanishesInAMessageIsAnError) {
  const std::string whole = rpc::encode_frame_start(make_envelope("a", 5)).ValueOrDie();
  write(whole + whole.substr(0, whole.size() / 2));
  raw_.reset();
  const auto reason = recorder_.wait_closed();
  ASSERT_TRUE(reason.has_value());
  EXPECT_TRUE(reason->IsIOError()) << *reason;
  EXPECT_EQ(recorder_.take(1).size(), 1u) << "what came whole is delivered";
}

TEST_F(SocketChannelAndRawPeer, NonsenseClosesTheChannelWithInvalid) {
  write(rpc::encode_frame_start(make_envelope("a", 5)).ValueOrDie() + "GET / HTTP/1.1\r\nHost: localhost\r\n");
  const auto reason = recorder_.wait_closed();
  ASSERT_TRUE(reason.has_value());
  EXPECT_TRUE(reason->IsInvalid()) << *reason;
  EXPECT_EQ(recorder_.take(1).size(), 1u);
  std::array<std::byte, 8> buffer;
  EXPECT_TRUE(receive_some(raw_.get(), buffer).ValueOrDie().closed) << "the peer is told";
  EXPECT_TRUE(channel_->send(make_envelope("late")).IsIOError());
}

TEST_F(SocketChannelAndRawPeer, IsDestroyedAlthoughThePeerNeverReads) {
  ASSERT_TRUE(channel_->send(make_envelope("large", 0, std::string(8'000'000, 'x'))).ok());
  channel_.reset();
  EXPECT_EQ(recorder_.closes(), 0);
}

TEST(SocketChannel, IsDestroyedAfterItsLoopHasStopped) {
  auto [raw, socket] = make_socket_pair().ValueOrDie();
  boost::asio::io_context loop;
  auto channel = rpc::make_socket_channel(loop, std::move(socket));
  channel->start({.on_message = [](const rpc::Envelope&) {}, .on_close = [](const arrow::Status&) {}});
  ASSERT_TRUE(channel->send(make_envelope("a")).ok());
  channel.reset();
  std::array<std::byte, 256> buffer;
  EXPECT_GT(receive_some(raw.get(), buffer).ValueOrDie().bytes, rpc::kFrameHeaderBytes);
  EXPECT_TRUE(receive_some(raw.get(), buffer).ValueOrDie().closed);
}

}  // namespace
}  // namespace paceline::testing
