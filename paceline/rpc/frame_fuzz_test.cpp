// Whatever a peer sends, FrameReader gives envelopes or Invalid: it never crashes, and never allocates for a size that
// is only announced. Seeded, so that a failure can be repeated.
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <array>
#include <limits>
#include <random>

#include "paceline/rpc/channel.h"
#include "paceline/rpc/frame.h"
#include "paceline/rpc/messages.h"

namespace paceline::rpc {
namespace {

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  /// 0 ≤ number < count.
  size_t below(size_t count) { return engine_() % count; }
  bool once_in(size_t count) { return below(count) == 0; }
  char byte() { return static_cast<char>(engine_()); }
  std::string bytes(size_t count) {
    std::string text(count, '\0');
    for (char& c : text) c = byte();
    return text;
  }

 private:
  std::mt19937 engine_;
};

Envelope some_envelope(Random& random) {
  const Identity identity{
      .epoch = {1}, .attempt = {2}, .generation = {0}, .worker = {static_cast<int64_t>(random.below(9))}};
  switch (random.below(4)) {
    case 0:
      return pack(ProcessStarted{static_cast<int64_t>(random.below(100))}, identity);
    case 1: {
      Report report{.index = 3, .reduce = "mean"};
      report.metrics = {{"loss", random.once_in(3) ? std::numeric_limits<double>::quiet_NaN() : 0.5}, {"a", {1, {2}}}};
      return pack(report, identity);
    }
    case 2: {
      Envelope envelope =
          pack(StoreRequest{.operation = StoreOperation::set, .keys = {"a", "b"}, .timeout_s = 1.5}, identity);
      envelope.request = 7;
      envelope.bytes = random.bytes(random.below(300));
      return envelope;
    }
    default:
      return pack(Assign{.rank = {1}, .world_size = 4, .node = "node \"zero\""}, identity);
  }
}

std::string some_stream(Random& random) {
  std::string stream;
  for (size_t frames = 1 + random.below(5); frames > 0; --frames) {
    const Envelope envelope = some_envelope(random);
    stream += encode_frame_start(envelope).ValueOrDie() + envelope.bytes;
  }
  return stream;
}

void mutate(std::string& stream, Random& random) {
  const size_t at = random.below(stream.size());
  const size_t count = 1 + random.below(std::min<size_t>(stream.size() - at, 40));
  switch (random.below(7)) {
    case 0:
      stream[at] = random.byte();
      break;
    case 1:
      stream[at] = static_cast<char>(stream[at] ^ (1 << random.below(8)));
      break;
    case 2:
      stream.erase(at, count);
      break;
    case 3:
      stream.insert(at, random.bytes(count));
      break;
    case 4:
      stream.insert(at, stream.substr(at, count));
      break;
    case 5:
      stream.resize(at);
      break;
    default: {  // a header's sizes
      static const std::string kExtremes[] = {std::string(4, '\xff'), std::string(4, '\0'),
                                              std::string("\0\0\0\x01", 4), std::string("\0\0\0\x40", 4),
                                              std::string("\x01\0\0\0", 4)};
      stream.replace(std::min(4 + random.below(12), stream.size()), 4, kExtremes[random.below(5)]);
    }
  }
  if (stream.empty()) stream = random.bytes(1);
}

// Every message type must take any body without an exception.
void unpack_as_everything(const Envelope& envelope) {
  std::apply(
      [&](const auto&... message) {
        const auto unpack_as = [&](const auto& type) {
          if (envelope.type != type.kType) return;
          const auto unpacked = unpack<std::remove_cvref_t<decltype(type)>>(envelope);
          ASSERT_TRUE(unpacked.ok() || unpacked.status().IsInvalid());
        };
        (unpack_as(message), ...);
      },
      Catalogue{});
}

/// Feeds `stream` in random portions, sometimes with descriptors. Gives the number of envelopes.
size_t read_all(std::string_view stream, Random& random, bool with_descriptors) {
  FrameReader reader;
  size_t envelopes = 0;
  bool broken = false;
  while (!stream.empty()) {
    const size_t portion = std::min(stream.size(), 1 + random.below(random.once_in(2) ? 20 : 2000));
    std::vector<Descriptor> descriptors;
    if (with_descriptors && random.once_in(4)) descriptors.emplace_back(::dup(STDERR_FILENO));
    const arrow::Status fed = reader.feed(std::as_bytes(std::span(stream.substr(0, portion))), std::move(descriptors));
    EXPECT_TRUE(fed.ok() || fed.IsInvalid()) << fed;
    EXPECT_FALSE(broken && fed.ok()) << "a broken stream must stay broken";
    broken = !fed.ok();
    stream.remove_prefix(portion);
    while (true) {
      const auto next = reader.next();
      EXPECT_TRUE(next.ok() || (broken && next.status().IsInvalid()));
      if (!next.ok() || !*next) break;
      ++envelopes;
      unpack_as_everything(**next);
      // What was read can be written and read again.
      EXPECT_TRUE(decode_head(encode_head(**next)).ok());
    }
    EXPECT_FALSE(broken && reader.at_boundary());
  }
  return envelopes;
}

size_t allocated_bytes() {
  const auto info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

TEST(FrameFuzz, ValidStreamsAreReadWhole) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    Random random(seed);
    const std::string stream = some_stream(random);
    EXPECT_GE(read_all(stream, random, false), 1u) << "seed " << seed;
  }
}

TEST(FrameFuzz, MutatedStreamsGiveEnvelopesOrInvalid) {
  for (unsigned seed = 0; seed < 8000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::string stream = some_stream(random);
    for (size_t times = 1 + random.below(4); times > 0; --times) mutate(stream, random);
    read_all(stream, random, seed % 4 == 0);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(FrameFuzz, RandomBytesGiveNothing) {
  for (unsigned seed = 0; seed < 4000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::string stream = random.bytes(1 + random.below(500));
    // Half of them get as far as the sizes, some as far as the head.
    if (random.once_in(2)) stream.insert(0, "PCL1");
    if (random.once_in(4) && stream.size() > 24)
      stream.replace(16, 4, 4, '\0').replace(5, 3, 3, '\0').replace(8, 8, 8, '\0');
    EXPECT_EQ(read_all(stream, random, false), 0u);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(FrameFuzz, AnAnnouncedSizeAllocatesNothing) {
  std::vector<FrameReader> readers(100);
  Envelope envelope = pack(ProcessStarted{1});
  std::string start = encode_frame_start(envelope).ValueOrDie();
  const uint64_t announced = kMaxBytes;
  start.replace(8, 8, reinterpret_cast<const char*>(&announced), 8);
  const size_t before = allocated_bytes();
  for (FrameReader& reader : readers) ASSERT_TRUE(reader.feed(std::as_bytes(std::span(start))).ok());
  EXPECT_LT(allocated_bytes(), before + (size_t{1} << 20)) << "for 100 frames of 1 GiB, of which nothing has come";
}

}  // namespace
}  // namespace paceline::rpc
