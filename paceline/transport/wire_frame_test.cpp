#include "paceline/transport/wire_frame.h"

#include <gtest/gtest.h>

#include <random>

#include "paceline/transport/resumable_stream.h"

namespace paceline::transport {
namespace {

TEST(WireFrame, ComesBackAsItWasWritten) {
  const std::string data = encode_header(FrameKind::data, 1'234'567'890'123, 42) + std::string("a\0b", 3);
  EXPECT_EQ(*decode_wire_frame(data), (WireFrame{.kind = FrameKind::data,
                                                 .offset = 1'234'567'890'123,
                                                 .acknowledged = 42,
                                                 .bytes = std::string_view("a\0b", 3)}));
  EXPECT_EQ(decode_wire_frame(encode_header(FrameKind::close, 7, 0))->kind, FrameKind::close);
}

TEST(WireFrame, RefusesEverythingElse) {
  const std::string good = encode_header(FrameKind::heartbeat, 0, 0);
  const auto is_refused = [](const std::string& frame) { return decode_wire_frame(frame).status().IsInvalid(); };
  EXPECT_TRUE(is_refused(""));
  EXPECT_TRUE(is_refused(good.substr(1)));
  EXPECT_TRUE(is_refused(good.substr(0, kWireHeaderBytes - 1)));
  EXPECT_TRUE(is_refused(good + "x")) << "a heartbeat has no bytes";
  EXPECT_TRUE(is_refused(encode_header(FrameKind::data, 0, 0))) << "data has some";
  EXPECT_TRUE(is_refused(encode_header(static_cast<FrameKind>(0), 0, 0)));
  EXPECT_TRUE(is_refused(encode_header(static_cast<FrameKind>(4), 0, 0)));
  EXPECT_TRUE(is_refused(encode_header(FrameKind::heartbeat, -1, 0)));
  EXPECT_TRUE(is_refused(encode_header(FrameKind::heartbeat, 0, -1)));
  EXPECT_TRUE(is_refused(encode_header(FrameKind::data, 0, 0) + std::string(kMaxPortionBytes + 1, 'x')));
  std::string reserved = good;
  reserved[6] = 1;
  EXPECT_TRUE(is_refused(reserved));
}

// Seeded: whatever comes is a frame or Invalid, and a frame can be written and read again.
TEST(WireFrame, MutatedFramesGiveFramesOrInvalid) {
  for (unsigned seed = 0; seed < 20000; ++seed) {
    std::mt19937 random(seed);
    std::string frame = encode_header(static_cast<FrameKind>(1 + random() % 3), random(), random());
    frame.append(random() % 30, static_cast<char>(random()));
    for (auto times = random() % 4; times > 0; --times) frame[random() % frame.size()] = static_cast<char>(random());
    frame.resize(frame.size() - (random() % 8 == 0 ? random() % frame.size() : 0));
    const auto decoded = decode_wire_frame(frame);
    ASSERT_TRUE(decoded.ok() || decoded.status().IsInvalid()) << seed;
    if (!decoded.ok()) continue;
    EXPECT_EQ(encode_header(decoded->kind, decoded->offset, decoded->acknowledged) + std::string(decoded->bytes), frame)
        << seed;
  }
}

}  // namespace
}  // namespace paceline::transport
