#include "paceline/core/posix/socket_pair.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstring>

namespace paceline {
namespace {

TEST(SocketPair, CarriesBytesAndDescriptors) {
  auto [left, right] = make_socket_pair().ValueOrDie();
  int pipe_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);
  const Descriptor read_end(pipe_ends[0]);
  {
    const Descriptor write_end(pipe_ends[1]);
    const int passed[] = {write_end.get()};
    const std::array bytes{std::byte{7}};
    ASSERT_EQ(send_some(left.get(), bytes, passed).ValueOrDie(), 1u);
  }
  std::array<std::byte, 8> buffer;
  auto received = receive_some(right.get(), buffer).ValueOrDie();
  ASSERT_EQ(received.bytes, 1u);
  ASSERT_EQ(received.descriptors.size(), 1u);
  ASSERT_EQ(::write(received.descriptors[0].get(), "x", 1), 1);
  char read = 0;
  ASSERT_EQ(::read(read_end.get(), &read, 1), 1);
  EXPECT_EQ(read, 'x');
}

TEST(SocketPair, AClosedPeerIsReportedNotASignal) {
  auto [left, right] = make_socket_pair().ValueOrDie();
  right.reset();
  const std::array bytes{std::byte{1}};
  EXPECT_TRUE(send_some(left.get(), bytes, {}).status().IsIOError());
  std::array<std::byte, 8> buffer;
  EXPECT_TRUE(receive_some(left.get(), buffer).ValueOrDie().closed);
}

TEST(SocketPair, RefusesTooManyDescriptors) {
  auto [left, right] = make_socket_pair().ValueOrDie();
  const std::vector<int> many(kMaxDescriptorsPerCall + 1, left.get());
  const std::array bytes{std::byte{1}};
  EXPECT_TRUE(send_some(left.get(), bytes, many).status().IsInvalid());
}

}  // namespace
}  // namespace paceline
