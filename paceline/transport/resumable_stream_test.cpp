#include "paceline/transport/resumable_stream.h"

#include <gtest/gtest.h>

#include <random>

namespace paceline::transport {
namespace {

std::string next(SendingStream& stream, size_t limit = kMaxPortionBytes) {
  std::string out;
  stream.take(out, limit);
  return out;
}

TEST(SendingStream, GivesPortionsOverPiecesAndKeepsWhatIsNotAcknowledged) {
  SendingStream stream;
  stream.push("abc");
  stream.push("");
  stream.push("defg");
  EXPECT_EQ(next(stream, 2), "ab");
  EXPECT_EQ(stream.next_offset(), 2);
  EXPECT_EQ(next(stream, 3), "cde");
  ASSERT_TRUE(stream.acknowledge(4).ok());
  EXPECT_EQ(next(stream), "fg");
  EXPECT_FALSE(stream.has_next());
  ASSERT_TRUE(stream.resume(4).ok());
  EXPECT_EQ(next(stream), "efg");
  ASSERT_TRUE(stream.acknowledge(7).ok());
  stream.push("h");
  EXPECT_EQ(next(stream), "h");
}

TEST(SendingStream, RefusesWhatThePeerCannotHave) {
  SendingStream stream;
  stream.push("abcdef");
  EXPECT_TRUE(stream.acknowledge(1).IsInvalid()) << "nothing was given out yet";
  next(stream, 4);
  EXPECT_TRUE(stream.acknowledge(5).IsInvalid());
  EXPECT_TRUE(stream.acknowledge(-1).IsInvalid());
  ASSERT_TRUE(stream.acknowledge(3).ok());
  EXPECT_TRUE(stream.acknowledge(2).ok()) << "late, and known";
  EXPECT_EQ(stream.acknowledged(), 3);
  EXPECT_TRUE(stream.resume(2).IsInvalid()) << "let go of";
  EXPECT_TRUE(stream.resume(7).IsInvalid()) << "never sent";
  EXPECT_EQ(next(stream), "ef") << "what was refused has changed nothing";
}

TEST(SendingStream, DropsEverythingAndGoesOnBehindIt) {
  SendingStream stream;
  stream.push("abc");
  next(stream, 1);
  stream.drop();
  EXPECT_FALSE(stream.has_next());
  EXPECT_EQ(stream.end(), 3);
  stream.push("d");
  EXPECT_EQ(stream.next_offset(), 3);
  EXPECT_EQ(next(stream), "d");
}

TEST(ReceivingStream, TrimsWhatWasThereAndRefusesGaps) {
  ReceivingStream stream;
  EXPECT_EQ(*stream.accept(0, "abc"), "abc");
  EXPECT_EQ(*stream.accept(1, "bcd"), "d");
  EXPECT_EQ(*stream.accept(0, "ab"), "");
  EXPECT_TRUE(stream.accept(5, "f").status().IsInvalid());
  EXPECT_TRUE(stream.accept(-1, "abcdef").status().IsInvalid());
  EXPECT_EQ(stream.received(), 4);
}

// One direction: an end that sends, one that receives, and between them what is on its way.
struct Direction {
  struct Portion {
    int64_t offset;
    std::string bytes;
  };
  SendingStream sending;
  ReceivingStream receiving;
  std::deque<Portion> portions;
  std::deque<int64_t> acknowledgements;
  std::string sent, received;

  void send(std::string bytes) {
    sent += bytes;
    sending.push(std::move(bytes));
  }
  void write(size_t limit) {
    Portion portion{.offset = sending.next_offset()};
    sending.take(portion.bytes, limit);
    if (!portion.bytes.empty()) portions.push_back(std::move(portion));
  }
  void arrive(const Portion& portion) {
    const auto fresh = receiving.accept(portion.offset, portion.bytes);
    ASSERT_TRUE(fresh.ok()) << fresh.status();
    received += *fresh;
  }
  // The connection breaks; whatever was on its way is gone, and the peer says what it has.
  void resume() {
    portions.clear();
    acknowledgements.clear();
    ASSERT_TRUE(sending.resume(receiving.received()).ok());
  }
  bool done() const { return received.size() == sent.size(); }
};

TEST(ResumableStream, EveryByteComesOnceAndInOrderWhateverTheNetworkDoes) {
  for (unsigned seed = 0; seed < 4000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&](size_t count) { return random() % count; };
    Direction ways[2];
    int messages[2] = {static_cast<int>(below(12)), static_cast<int>(below(12))};
    while (messages[0] + messages[1] > 0 || !ways[0].done() || !ways[1].done()) {
      const size_t which = below(2);
      Direction& way = ways[which];
      switch (below(12)) {
        case 0:
        case 1:
          if (messages[which] > 0) {
            --messages[which];
            std::string bytes(below(40), '\0');
            for (char& c : bytes) c = static_cast<char>(random());
            way.send(std::move(bytes));
          }
          break;
        case 2:  // cut anywhere: the beginning of what is on its way may still have come
          if (!way.portions.empty() && below(2) == 0) {
            Direction::Portion cut = way.portions.front();
            cut.bytes.resize(below(cut.bytes.size() + 1));
            way.arrive(cut);
          }
          for (Direction& each : ways) each.resume();
          break;
        case 3:  // repeated
          if (!way.portions.empty()) {
            const Direction::Portion again = way.portions.front();
            way.arrive(again);
          }
          break;
        case 4:
          way.acknowledgements.push_back(way.receiving.received());
          break;
        case 5:
          if (!way.acknowledgements.empty()) {
            ASSERT_TRUE(way.sending.acknowledge(way.acknowledgements.front()).ok());
            way.acknowledgements.pop_front();
          }
          break;
        case 6:
        case 7:
        case 8:
          way.write(1 + below(30));
          break;
        default:
          if (!way.portions.empty()) {
            const Direction::Portion portion = way.portions.front();
            way.portions.pop_front();
            way.arrive(portion);
          }
      }
      if (HasFatalFailure()) return;
    }
    for (const Direction& way : ways) ASSERT_TRUE(way.received == way.sent);
  }
}

}  // namespace
}  // namespace paceline::transport
