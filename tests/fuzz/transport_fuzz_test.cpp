// What comes over connections between machines, and the file that leads to them.
#include <gtest/gtest.h>

#include <filesystem>

#include "paceline/package/manifest.h"
#include "paceline/transport/flight_link.h"
#include "paceline/transport/hello.h"
#include "paceline/transport/resumable_stream.h"
#include "paceline/transport/trust_file.h"
#include "paceline/transport/wire_frame.h"
#include "tests/fuzz/fuzzer.h"

namespace paceline::transport {
namespace {

using testing::Fuzzer;

// As far as the streams at this end: they take what a frame says, or refuse it.
TEST(Fuzz, WireFrame) {
  Fuzzer("wire").run([](std::string_view text) {
    const auto frame = decode_wire_frame(text);
    if (!frame.ok()) {
      EXPECT_TRUE(frame.status().IsInvalid());
      return;
    }
    EXPECT_EQ(encode_header(frame->kind, frame->offset, frame->acknowledged) + std::string(frame->bytes), text);
    ReceivingStream receiving;
    ASSERT_TRUE(receiving.accept(0, std::string(300, 'a')).ok());
    const auto fresh = receiving.accept(frame->offset, frame->bytes);
    EXPECT_LE(fresh.ok() ? fresh->size() : 0, frame->bytes.size());
    SendingStream sending;
    for (int i = 0; i < 20; ++i) sending.push(std::string(30, 'b'));
    std::string given;
    sending.take(given, 400);
    (void)sending.acknowledge(frame->acknowledged);
    (void)sending.resume(frame->offset);
    sending.take(given);
    EXPECT_FALSE(sending.has_next());
  });
}

TEST(Fuzz, Hello) {
  Fuzzer("hello").run([](std::string_view text) {
    const auto hello = decode_hello(text);
    if (hello.ok()) {
      const auto again = decode_hello(encode_hello(*hello));
      ASSERT_TRUE(again.ok()) << again.status();
      EXPECT_EQ(*again, *hello);
    }
    const auto answer = decode_hello_answer(text);
    if (answer.ok()) {
      EXPECT_GE(answer->received, 0);
    }
    (void)parse_address(std::string(text));
  });
}

TEST(Fuzz, TrustFile) {
  Fuzzer("trust").run([](std::string_view text) {
    const auto file = decode_trust_file(text);
    if (!file.ok()) {
      EXPECT_EQ(file.status().message().find("fuzz-only_token"), std::string::npos);
      return;
    }
    EXPECT_TRUE(decode_trust_file(encode_trust_file(*file)).ok());
  });
}

// What is unpacked stays in its folder.
TEST(Fuzz, Package) {
  Fuzzer("package").run([](std::string_view text) {
    const auto manifest = package::decode(text);
    if (!manifest.ok()) return;
    for (const package::PackagedFile& file : *manifest) {
      const std::filesystem::path folder = "/folder";
      const std::filesystem::path path = folder / file.path;
      for (const auto& place : {path, path.parent_path() / file.link}) {
        const std::string normal = place.lexically_normal();
        EXPECT_TRUE(normal == "/folder" || normal.starts_with("/folder/")) << normal;
      }
    }
    EXPECT_EQ(package::decode(package::encode(*manifest)).ValueOrDie(), *manifest);
  });
}

}  // namespace
}  // namespace paceline::transport
