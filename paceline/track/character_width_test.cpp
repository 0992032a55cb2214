#include "paceline/track/character_width.h"

#include <gtest/gtest.h>

namespace paceline::track {
namespace {

constexpr const char* kSecondControl = "\xc2\x9b";  // U+009B, which 8-bit terminals obey as "\x1b["

TEST(CharacterWidth, EastAsianLettersTakeTwoColumns) {
  EXPECT_EQ(columns_of("größe"), 5u);
  EXPECT_EQ(columns_of("東京"), 4u);
  EXPECT_EQ(columns_of("한국어"), 6u);
  EXPECT_EQ(columns_of("🚀"), 2u);
  EXPECT_EQ(columns_of("e\u0301"), 1u) << "a combining accent";
  EXPECT_EQ(bytes_that_fit("東京", 3), 3u);
  EXPECT_EQ(bytes_that_fit("東京", 4), 6u);
  EXPECT_EQ(bytes_that_fit("e\u0301x", 1), 3u);
}

TEST(CharacterWidth, BrokenBytesTakeAColumnEach) {
  for (const std::string broken : {"\xff", "\x80", "\xc3", "\xf8"}) EXPECT_EQ(columns_of(broken), 1u);
  EXPECT_EQ(columns_of("\xe6\x9d"), 2u) << "cut short";
  EXPECT_EQ(columns_of("\xc0\xaf"), 2u) << "longer than it need be";
  EXPECT_EQ(columns_of("\xed\xa0\x80"), 3u) << "half of a pair";
  EXPECT_EQ(columns_of("\xf4\x90\x80\x80"), 4u) << "beyond Unicode";
}

TEST(CharacterWidth, NothingThatATerminalObeysIsPrinted) {
  EXPECT_EQ(printable("größe € 東京 🚀"), "größe € 東京 🚀");
  EXPECT_EQ(printable("a b\n\t\x1b[31m\x7f"), "a b\\n\\t\\x1b[31m\\x7f");
  EXPECT_EQ(printable(std::string(kSecondControl) + "31m"), "\\xc2\\x9b31m");
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(printable("\xc0\x9b"), "\\xc0\\x9b") << "longer than it need be";
  EXPECT_EQ(in_ascii("größe 東京\xff"), "gr??e ???");
}

TEST(CharacterWidth, OfAProgramsLineColoursAndTabsStay) {
  EXPECT_EQ(without_control("a\t\x1b[31mred\x1b[2Jb\r\a"), "a\t\x1b[31mredb\x1b[0m");
  EXPECT_EQ(without_control("\x1b[31mred", Colours::dropped), "red");
  EXPECT_EQ(without_control(std::string("a") + kSecondControl + "2Jb"), "a2Jb");
  EXPECT_EQ(without_control("a\x9b"
                            "2Jb"),
            "a2Jb")
      << "the same as a byte";
  EXPECT_EQ(without_control("größe 東京 gr\xf6\xdf"
                            "e"),
            "größe 東京 gr\xf6\xdf"
            "e");
}

}  // namespace
}  // namespace paceline::track
