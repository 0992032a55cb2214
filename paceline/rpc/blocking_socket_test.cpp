#include "paceline/rpc/blocking_socket.h"

#include <gtest/gtest.h>

#include <thread>

#include "paceline/core/posix/socket_pair.h"
#include "paceline/rpc/messages.h"

namespace paceline::rpc {
namespace {

using std::chrono::milliseconds;

class BlockingSockets : public ::testing::Test {
 protected:
  BlockingSockets() : BlockingSockets(make_socket_pair().ValueOrDie()) {}
  explicit BlockingSockets(std::pair<Descriptor, Descriptor> ends)
      : left_(std::move(ends.first)), right_(std::make_unique<BlockingSocket>(std::move(ends.second))) {}

  BlockingSocket left_;
  std::unique_ptr<BlockingSocket> right_;
};

TEST_F(BlockingSockets, ShutDownWakesAReceiver) {
  std::thread receiver([&] {
    const auto received = left_.receive();
    EXPECT_TRUE(received.ok() && !*received);
  });
  left_.shut_down();
  receiver.join();
  EXPECT_TRUE(left_.send(pack(Heartbeat{})).IsIOError());
}

TEST_F(BlockingSockets, WaitTimesOutAndSeesWhatIsBufferedAlready) {
  EXPECT_FALSE(*left_.wait(milliseconds(0)));
  // Both arrive in one portion; the second is not on the socket any more when it is waited for.
  ASSERT_TRUE(right_->send(pack(ProcessStarted{.pid = 1})).ok());
  ASSERT_TRUE(right_->send(pack(ProcessStarted{.pid = 2})).ok());
  for (const int64_t number : {1, 2}) {
    EXPECT_TRUE(*left_.wait(milliseconds(60'000)));
    EXPECT_EQ(unpack<ProcessStarted>(**left_.receive())->pid, number);
  }
  EXPECT_FALSE(*left_.wait(milliseconds(1)));
}

TEST_F(BlockingSockets, WaitEndsWhenThePeerCloses) {
  right_.reset();
  EXPECT_TRUE(*left_.wait(milliseconds(60'000)));
  const auto received = left_.receive();
  EXPECT_TRUE(received.ok() && !*received);
  EXPECT_TRUE(left_.send(pack(Heartbeat{})).IsIOError());
}

TEST_F(BlockingSockets, ABrokenOffMessageIsAnError) {
  const std::string start = encode_frame_start(pack(Heartbeat{})).ValueOrDie();
  ASSERT_TRUE(send_some(right_->descriptor(), std::as_bytes(std::span(start)).first(30), {}).ok());
  right_.reset();
  EXPECT_TRUE(left_.receive().status().IsIOError());
}

}  // namespace
}  // namespace paceline::rpc
