#include "paceline/core/http/web_socket.h"

#include <gmock/gmock.h>

namespace paceline {
namespace {

using Kind = WebSocketReader::Message::Kind;

// As a server writes it: without a mask.
std::string frame(int opcode, const std::string& content, bool is_last = true) {
  std::string bytes{static_cast<char>((is_last ? 0x80 : 0) | opcode)};
  const size_t size = content.size();
  if (size < 126) {
    bytes.push_back(static_cast<char>(size));
  } else if (size < 65536) {
    bytes += {126, static_cast<char>(size >> 8), static_cast<char>(size)};
  } else {
    bytes.push_back(127);
    for (int i = 7; i >= 0; --i) bytes.push_back(static_cast<char>(size >> (8 * i)));
  }
  return bytes + content;
}

TEST(WebSocketReader, MakesMessagesOfBytesInAnyPortions) {
  const std::string longer(300, 'x');
  const std::string longest(70'000, 'y');
  const std::string bytes = frame(1, "one") + frame(1, "two ", false) + frame(9, "ping") + frame(0, "parts") +
                            frame(1, longer) + frame(10, "unasked") + frame(1, longest) + frame(8, "");
  for (const size_t portion : {size_t{1}, size_t{7}, bytes.size()}) {
    WebSocketReader reader;
    std::vector<std::pair<Kind, std::string>> messages;
    for (size_t at = 0; at < bytes.size(); at += portion) {
      reader.feed(std::string_view(bytes).substr(at, portion));
      for (auto message = reader.next().ValueOrDie(); message; message = reader.next().ValueOrDie()) {
        messages.emplace_back(message->kind, message->content);
      }
    }
    EXPECT_THAT(messages, ::testing::ElementsAre(std::pair(Kind::text, "one"), std::pair(Kind::ping, "ping"),
                                                 std::pair(Kind::text, "two parts"), std::pair(Kind::text, longer),
                                                 std::pair(Kind::text, longest), std::pair(Kind::close, "")));
  }
}

TEST(WebSocketReader, RefusesWhatIsNoneAndWhatIsBeyondMeasure) {
  for (const std::string& bytes :
       {std::string("HTTP"), std::string("\x81\x85masked"), std::string("\x81\x7f\x7f\0\0\0\0\0\0\0", 10)}) {
    WebSocketReader reader;
    reader.feed(bytes);
    EXPECT_TRUE(reader.next().status().IsInvalid()) << bytes;
  }
}

}  // namespace
}  // namespace paceline
