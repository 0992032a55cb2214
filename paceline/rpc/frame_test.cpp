#include "paceline/rpc/frame.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "paceline/rpc/channel.h"
#include "paceline/rpc/messages.h"

namespace paceline::rpc {
namespace {

std::span<const std::byte> as_span(std::string_view text) {
  return std::as_bytes(std::span(text));
}

Envelope numbered(int64_t number, std::string bytes = {}) {
  Envelope envelope = pack(ProcessStarted{.pid = number});
  envelope.bytes = std::move(bytes);
  return envelope;
}

std::string frame_of(const Envelope& envelope) {
  return encode_frame_start(envelope).ValueOrDie() + envelope.bytes;
}

Descriptor some_descriptor() {
  return Descriptor(::dup(STDERR_FILENO));
}

std::vector<Descriptor> some_descriptors(size_t count) {
  std::vector<Descriptor> descriptors;
  for (size_t i = 0; i < count; ++i) descriptors.push_back(some_descriptor());
  return descriptors;
}

TEST(Frame, HasTheDocumentedLayout) {
  const Envelope envelope = numbered(1, "xyz");
  const std::string frame = frame_of(envelope);
  const std::string head = encode_head(envelope);
  ASSERT_EQ(frame.size(), kFrameHeaderBytes + head.size() + 3);
  EXPECT_EQ(frame.substr(0, 4), "PCL1");
  EXPECT_EQ(static_cast<unsigned char>(frame[4]), head.size());
  EXPECT_EQ(frame.substr(5, 3), std::string(3, '\0'));
  EXPECT_EQ(frame.substr(8, 12), std::string("\x03") + std::string(11, '\0'));
  EXPECT_EQ(frame.substr(kFrameHeaderBytes), head + "xyz");
}

TEST(FrameReader, GivesTheSameEnvelopesWhateverThePortions) {
  std::string stream;
  for (int64_t i = 0; i < 20; ++i) stream += frame_of(numbered(i, std::string(static_cast<size_t>(i * 7), 'x')));
  for (size_t portion = 1; portion < stream.size(); portion += portion < 50 ? 1 : 97) {
    FrameReader reader;
    int64_t next = 0;
    for (size_t at = 0; at < stream.size(); at += portion) {
      ASSERT_TRUE(reader.feed(as_span(std::string_view(stream).substr(at, portion))).ok());
      while (true) {
        auto envelope = reader.next().ValueOrDie();
        if (!envelope) break;
        EXPECT_EQ(unpack<ProcessStarted>(*envelope)->pid, next);
        EXPECT_EQ(envelope->bytes.size(), static_cast<size_t>(next * 7));
        ++next;
      }
    }
    EXPECT_EQ(next, 20);
    EXPECT_TRUE(reader.at_boundary());
  }
}

TEST(FrameReader, KnowsWhetherItStandsBetweenFrames) {
  const std::string frame = frame_of(numbered(1, "bytes"));
  for (size_t size = 1; size < frame.size(); ++size) {
    FrameReader reader;
    ASSERT_TRUE(reader.feed(as_span(std::string_view(frame).substr(0, size))).ok());
    EXPECT_FALSE(reader.at_boundary()) << size;
  }
}

TEST(FrameReader, GivesWhatCameBeforeNonsenseThenTheError) {
  FrameReader reader;
  EXPECT_TRUE(reader.feed(as_span(frame_of(numbered(1)) + std::string(40, '?'))).IsInvalid());
  EXPECT_TRUE(reader.next().ValueOrDie().has_value());
  EXPECT_TRUE(reader.next().status().IsInvalid());
  EXPECT_TRUE(reader.feed(as_span(frame_of(numbered(2)))).IsInvalid()) << "after nonsense nothing can be read";
  EXPECT_TRUE(reader.next().status().IsInvalid());
}

TEST(FrameReader, RefusesSizesOverTheLimits) {
  const auto header = [](uint32_t head, uint64_t bytes, uint8_t descriptors) {
    std::string text = "PCL1";
    text.append(reinterpret_cast<const char*>(&head), 4);
    text.append(reinterpret_cast<const char*>(&bytes), 8);
    text.push_back(static_cast<char>(descriptors));
    return text + std::string(3, '\0');
  };
  EXPECT_TRUE(FrameReader().feed(as_span(header(kMaxHeadBytes, kMaxBytes, 0))).ok());
  EXPECT_TRUE(FrameReader().feed(as_span(header(kMaxHeadBytes + 1, 0, 0))).IsInvalid());
  EXPECT_TRUE(FrameReader().feed(as_span(header(10, kMaxBytes + 1, 0))).IsInvalid());
  EXPECT_TRUE(FrameReader().feed(as_span(header(10, 0, kMaxDescriptors + 1)), some_descriptors(9)).IsInvalid());
}

TEST(FrameReader, DescriptorsGoToTheFrameThatAnnouncesThem) {
  Envelope first = numbered(1);
  first.descriptors = some_descriptors(2);
  const Envelope second = numbered(2);
  const std::string stream = frame_of(first) + frame_of(second);
  for (size_t split = 1; split < stream.size(); ++split) {
    FrameReader reader;
    std::vector<Descriptor> arriving;
    for (const Descriptor& descriptor : first.descriptors) arriving.push_back(descriptor.duplicate().ValueOrDie());
    ASSERT_TRUE(reader.feed(as_span(std::string_view(stream).substr(0, split)), std::move(arriving)).ok());
    ASSERT_TRUE(reader.feed(as_span(std::string_view(stream).substr(split))).ok());
    EXPECT_EQ(reader.next().ValueOrDie()->descriptors.size(), 2u);
    EXPECT_EQ(reader.next().ValueOrDie()->descriptors.size(), 0u);
  }
}

TEST(FrameReader, RefusesDescriptorsThatWereNotAnnouncedOrDidNotCome) {
  const std::string plain = frame_of(numbered(1));
  EXPECT_TRUE(FrameReader().feed(as_span(plain), some_descriptors(1)).IsInvalid());
  EXPECT_TRUE(FrameReader().feed(as_span(plain).first(30), some_descriptors(1)).IsInvalid());
  EXPECT_TRUE(FrameReader().feed(as_span(plain).first(5), some_descriptors(kMaxDescriptors + 1)).IsInvalid());
  Envelope with_one = numbered(1);
  with_one.descriptors = some_descriptors(1);
  EXPECT_TRUE(FrameReader().feed(as_span(frame_of(with_one))).IsInvalid());
}

}  // namespace
}  // namespace paceline::rpc
