#include "paceline/agent/line_splitter_internal.h"

#include <gmock/gmock.h>

#include <random>

namespace paceline::agent {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;

TEST(LineSplitter, KeepsAnUnfinishedLineUntilItsEnd) {
  LineSplitter splitter;
  EXPECT_THAT(splitter.feed("a\nb"), ElementsAre("a"));
  EXPECT_THAT(splitter.feed("c"), ElementsAre());
  EXPECT_THAT(splitter.feed("\n\nd"), ElementsAre("bc", ""));
  EXPECT_THAT(splitter.finish(), ElementsAre("d"));
  EXPECT_THAT(splitter.finish(), ElementsAre());
}

TEST(LineSplitter, CutsVeryLongLines) {
  LineSplitter splitter;
  const std::string longest(LineSplitter::kMaxBytes, 'x');
  EXPECT_THAT(splitter.feed(longest), ElementsAre());
  EXPECT_THAT(splitter.feed("\n"), ElementsAre(longest));
  EXPECT_THAT(splitter.feed(longest + "y\n"), ElementsAre(longest, "y"));
  EXPECT_THAT(splitter.feed(longest + longest), ElementsAre(longest));
  EXPECT_THAT(splitter.finish(), ElementsAre(longest));
}

TEST(LineSplitter, PortionsDoNotMatter) {
  std::mt19937 random(7);
  std::string text;
  for (int line = 0; line < 50; ++line) {
    const size_t size = random() % 20 == 0 ? random() % (3 * LineSplitter::kMaxBytes) : random() % 100;
    text += std::string(size, static_cast<char>('a' + line % 26)) + "\n";
  }
  LineSplitter whole;
  const Lines expected = whole.feed(text);
  for (int trial = 0; trial < 20; ++trial) {
    LineSplitter splitter;
    Lines lines;
    for (size_t at = 0; at < text.size();) {
      const size_t size = 1 + random() % (trial % 2 == 0 ? 100 : 100000);
      for (std::string& line : splitter.feed(std::string_view(text).substr(at, size))) lines.push_back(std::move(line));
      at += size;
    }
    EXPECT_EQ(lines, expected);
  }
}

TEST(LineSplitter, OfALineThatIsDrawnOverTheLastStateIsLeft) {
  LineSplitter splitter;
  EXPECT_THAT(splitter.feed("\r  0%|     | 0/9"), ElementsAre());
  EXPECT_EQ(splitter.bar(), "  0%|     | 0/9");
  EXPECT_THAT(splitter.feed("\r 50%|##   | 5/9, 1.0 s"), ElementsAre());
  EXPECT_EQ(splitter.bar(), " 50%|##   | 5/9, 1.0 s");
  EXPECT_THAT(splitter.feed("\r100%|#####| 9/9       \nnext"), ElementsAre("100%|#####| 9/9"));
  EXPECT_EQ(splitter.bar(), "") << "an unfinished line that draws over nothing is no bar";
  EXPECT_THAT(splitter.finish(), ElementsAre("next"));
  EXPECT_THAT(splitter.feed("10 %\r20 %\r"), ElementsAre()) << "the other way round";
  EXPECT_EQ(splitter.bar(), "20 %");
  EXPECT_THAT(splitter.finish(), ElementsAre("20 %"));
  EXPECT_EQ(splitter.bar(), "");
}

TEST(LineSplitter, ABarThatWasWipedAwayLeavesNothing) {
  LineSplitter splitter;
  splitter.feed("\r 50%|##   |");
  splitter.feed("\r            \r");
  EXPECT_EQ(splitter.bar(), "");
  EXPECT_THAT(splitter.feed("a message\n\r 50%|##   |"), ElementsAre("a message")) << "tqdm.write()";
  EXPECT_EQ(splitter.bar(), " 50%|##   |");
  splitter.feed("\r\x1b[2K");
  EXPECT_EQ(splitter.bar(), "");
  EXPECT_THAT(splitter.finish(), ElementsAre());
  EXPECT_THAT(splitter.feed("\x1b[31mred\x1b[0m\r\x1b[1;32mgreen\x1b[0m\nnext"), ElementsAre("\x1b[1;32mgreen\x1b[0m"));
}

TEST(LineSplitter, LineEndsOfOtherSystemsAreLineEnds) {
  LineSplitter splitter;
  EXPECT_THAT(splitter.feed("one\r\n\r\n  two  \r\nthree  \n"), ElementsAre("one", "", "  two", "three  "));
}

TEST(LineSplitter, WhereverBarsAreCutTheyShowAndLeaveTheSame) {
  std::mt19937 random(11);
  const std::vector<std::string> pieces = {"\r",     "\n",     "\r\n",    " ",    "      ", "7%",
                                           "a line", "\x1b[K", "\x1b[0m", "|##|", "\x1b[A", "\x1b[2A"};
  for (int trial = 0; trial < 300; ++trial) {
    std::string text;
    for (int piece = 0; piece < 40; ++piece) text += pieces[random() % pieces.size()];
    LineSplitter whole;
    Lines expected = whole.feed(text);
    LineSplitter splitter;
    Lines lines;
    for (size_t at = 0; at < text.size();) {
      const size_t size = std::min<size_t>(1 + random() % 7, text.size() - at);
      for (std::string& line : splitter.feed(text.substr(at, size))) lines.push_back(std::move(line));
      at += size;
      LineSplitter until_here;
      until_here.feed(text.substr(0, at));
      EXPECT_EQ(splitter.bar(), until_here.bar());
      EXPECT_EQ(splitter.bar().find('\r'), std::string::npos);
      EXPECT_EQ(splitter.is_held(), until_here.is_held());
    }
    EXPECT_EQ(lines, expected);
    EXPECT_EQ(splitter.finish(), whole.finish());
    for (const std::string& line : lines) {
      EXPECT_EQ(line.find('\r'), std::string::npos);
      EXPECT_EQ(line.find("\x1b[A"), std::string::npos);
    }
  }
}

// The bytes that tqdm 4.70 wrote, with bar_format="{desc}: {n}/{total}" and mininterval=0.
class BarsInBars : public ::testing::Test {
 protected:
  // All lines that are left; collects what the bars showed whenever the cursor was in the first row.
  Lines lines_of(std::string_view bytes) {
    LineSplitter splitter;
    Lines lines;
    const auto take = [&](Lines&& more) {
      for (std::string& line : more) lines.push_back(std::move(line));
    };
    while (!bytes.empty()) {
      const size_t size = std::min(bytes.find("\x1b[A"), bytes.size() - 3) + 3;
      take(splitter.feed(bytes.substr(0, size)));
      shown_.push_back(splitter.bar());
      bytes.remove_prefix(size);
    }
    take(splitter.finish());
    return lines;
  }
  Lines shown_;
};

TEST_F(BarsInBars, OfEachTheLastStateIsLeft) {
  EXPECT_THAT(lines_of("\router: 0/2\n\rinner 0: 0/2\x1b[A\n\rinner 0: 1/2\x1b[A\n\rinner 0: 2/2\x1b[A\rinner 0: 2/2\n"
                       "\router: 1/2\n\rinner 1: 0/2\x1b[A\n\rinner 1: 1/2\x1b[A\n\rinner 1: 2/2\x1b[A\rinner 1: 2/2\n"
                       "\router: 2/2\router: 2/2\n"),
              ElementsAre("inner 0: 2/2", "inner 1: 2/2", "outer: 2/2"));
  EXPECT_THAT(shown_, ElementsAre("outer: 0/2\ninner 0: 0/2", "outer: 0/2\ninner 0: 1/2", "outer: 0/2\ninner 0: 2/2",
                                  "outer: 1/2\ninner 1: 0/2", "outer: 1/2\ninner 1: 1/2", "outer: 1/2\ninner 1: 2/2",
                                  "outer: 2/2"));
}

TEST_F(BarsInBars, ThoseThatAreWipedAwayLeaveNothing) {  // leave=False
  EXPECT_THAT(lines_of("\router: 0/2\n\rinner 0: 0/2\x1b[A\n\rinner 0: 1/2\x1b[A\n\rinner 0: 2/2\x1b[A\n"
                       "\r            \x1b[A\router: 1/2\n\rinner 1: 0/2\x1b[A\n\rinner 1: 1/2\x1b[A\n"
                       "\rinner 1: 2/2\x1b[A\n\r            \x1b[A\router: 2/2\router: 2/2\n"),
              ElementsAre("outer: 2/2"));
  EXPECT_THAT(shown_, Contains("outer: 1/2\ninner 1: 1/2"));
}

TEST_F(BarsInBars, ThreeLevels) {
  EXPECT_THAT(
      lines_of("\router: 0/2\n\rmiddle 0: 0/2\x1b[A\n\n\rinner 00: 0/1\x1b[A\x1b[A\n\n\rinner 00: 1/1\x1b[A\x1b[A"
               "\rinner 00: 1/1\n\n\rmiddle 0: 1/2\x1b[A\n\n\rinner 01: 0/1\x1b[A\x1b[A\n\n\rinner 01: 1/1\x1b[A"
               "\x1b[A\rinner 01: 1/1\n\n\rmiddle 0: 2/2\x1b[A\rmiddle 0: 2/2\n\router: 1/2\n\rmiddle 1: 0/2\x1b[A"
               "\n\n\rinner 10: 0/1\x1b[A\x1b[A\n\n\rinner 10: 1/1\x1b[A\x1b[A\rinner 10: 1/1\n\n\rmiddle 1: 1/2"
               "\x1b[A\n\n\rinner 11: 0/1\x1b[A\x1b[A\n\n\rinner 11: 1/1\x1b[A\x1b[A\rinner 11: 1/1\n\n"
               "\rmiddle 1: 2/2\x1b[A\rmiddle 1: 2/2\n\router: 2/2\router: 2/2\n"),
      ElementsAre("inner 00: 1/1", "inner 01: 1/1", "middle 0: 2/2", "inner 10: 1/1", "inner 11: 1/1", "middle 1: 2/2",
                  "outer: 2/2"));
  EXPECT_THAT(shown_, Contains("outer: 1/2\nmiddle 1: 0/2\ninner 10: 0/1"));
}

TEST_F(BarsInBars, ABarBelowNothing) {  // position=1
  EXPECT_THAT(lines_of("\n\ralone: 0/2\x1b[A\n\ralone: 1/2\x1b[A\n\ralone: 2/2\x1b[A\ralone: 2/2\n"),
              ElementsAre("", "alone: 2/2"));
  EXPECT_THAT(shown_, Contains("alone: 1/2"));
}

TEST_F(BarsInBars, MessagesBetweenThemAreLines) {  // tqdm.write(), and print()
  EXPECT_THAT(
      lines_of("\router: 0/2\n\rinner 0: 0/1\x1b[A\r          \r\n\r            \r\x1b[Amessage 0\n\router: 0/2\n"
               "\rinner 0: 0/1\x1b[A\n\rinner 0: 1/1\x1b[A\n\r            \x1b[Aprinted 0\n\router: 1/2\n"
               "\rinner 1: 0/1\x1b[A\r          \r\n\r            \r\x1b[Amessage 1\n\router: 1/2\n"
               "\rinner 1: 0/1\x1b[A\n\rinner 1: 1/1\x1b[A\n\r            \x1b[Aprinted 1\n"
               "\router: 2/2\router: 2/2\n"),
      ElementsAre("message 0", "outer: 0/2 printed 0", "message 1", "outer: 1/2 printed 1", "outer: 2/2"));
}

TEST_F(BarsInBars, AProgramThatDiesLeavesAllThatItShowed) {
  EXPECT_THAT(lines_of("\router: 0/2\n\rinner 0: 0/2\x1b[A\n\rinner 0: 1/2\x1b[A"),
              ElementsAre("outer: 0/2", "inner 0: 1/2"));
}

// A bar that its program draws anew below a line which it has written meanwhile.
TEST(LineSplitter, WhatStandsAboveABarThatBeginsIsNotHeldByIt) {
  LineSplitter splitter;
  EXPECT_THAT(splitter.feed("\r 0%"), ElementsAre());
  EXPECT_THAT(splitter.feed("warning\n"), ElementsAre());
  EXPECT_THAT(splitter.feed("\r33%"), ElementsAre()) << "the cursor may go up again";
  EXPECT_TRUE(splitter.is_held());
  EXPECT_THAT(splitter.release(), ElementsAre(" 0%warning"));
  EXPECT_EQ(splitter.bar(), "33%");
  EXPECT_FALSE(splitter.is_held());
  EXPECT_THAT(splitter.feed("\r67%"), ElementsAre());
  EXPECT_THAT(splitter.finish(), ElementsAre("67%"));
}

TEST(LineSplitter, TheLineOfABarIsHeldUntilItIsKnownToHaveEnded) {
  LineSplitter splitter;
  EXPECT_THAT(splitter.feed("\r9/9\n"), ElementsAre());
  EXPECT_TRUE(splitter.is_held());
  EXPECT_EQ(splitter.bar(), "9/9");
  EXPECT_THAT(splitter.release(), ElementsAre("9/9"));
  EXPECT_EQ(splitter.bar(), "");
  EXPECT_THAT(splitter.release(), ElementsAre());
  EXPECT_THAT(splitter.feed("\r9/9\n\n\nnext"), ElementsAre("9/9", "", "")) << "empty lines stay";
  EXPECT_THAT(splitter.feed(" line\n"), ElementsAre("next line")) << "what is no bar is not held";
  EXPECT_FALSE(splitter.is_held());
}

// tqdm.write() clears all bars and draws them again, in any order.
TEST(LineSplitter, ABarThatIsDrawnBeforeTheOneAboveItLeavesNoEmptyLine) {
  LineSplitter splitter;
  EXPECT_THAT(splitter.feed("\router\n\rinner\x1b[A"), ElementsAre());
  for (int round = 0; round < 2; ++round) {
    EXPECT_THAT(splitter.feed("\r     \r\n\r     \r\x1b[Anote\n"), ElementsAre("note"));
    EXPECT_THAT(splitter.feed("\n\rinner\x1b[A"), ElementsAre());
    EXPECT_THAT(splitter.feed("\router"), ElementsAre());
    EXPECT_EQ(splitter.bar(), "outer\ninner");
  }
  EXPECT_THAT(splitter.feed("\r     \r\n\r     \r\x1b[Anote\n\nmore\n"), ElementsAre("note", "", "more"))
      << "one that was printed stays";
}

TEST(LineSplitter, KeepsFewRows) {
  LineSplitter splitter;
  std::string text = "\rbar";
  for (int row = 0; row < 100; ++row) text += "\n";
  EXPECT_EQ(splitter.feed(text).size(), 101 - LineSplitter::kMaxRows);
  splitter.feed("\x1b[9999A");
  splitter.feed("\x1b[99999999999999999999A");
  const std::string row(LineSplitter::kMaxBytes, 'x');
  for (int i = 0; i < 100; ++i) {
    splitter.feed("\r" + row + "\n");
    EXPECT_LE(splitter.bar().size(), LineSplitter::kMaxBytes + LineSplitter::kMaxRows * LineSplitter::kMaxRowBytes);
  }
}

}  // namespace
}  // namespace paceline::agent
