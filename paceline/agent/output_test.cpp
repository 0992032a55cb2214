#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "paceline/agent/output_internal.h"

namespace paceline::agent {
namespace {

using testing::ElementsAre;

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

}  // namespace
}  // namespace paceline::agent
