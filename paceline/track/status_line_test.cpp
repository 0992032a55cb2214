#include "paceline/track/status_line.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

namespace paceline::track {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

RunStatus sample() {
  return {.state = "running",
          .progress = {.label = "epoch 3", .done = 176, .total = 391, .rate = 5.12},
          .metrics = {{"loss", 0.31256}, {"eval", {{"accuracy", 0.98}}}, {"epoch", 3}},
          .checkpoint = "checkpoint_000042"};
}

size_t width(const std::string& text) {
  size_t characters = 0;
  for (const char byte : text) characters += (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
  return characters;
}

TEST(StatusLine, ShowsAllThereIs) {
  EXPECT_EQ(status_line(sample(), {.columns = 200, .unicode = false, .colour = false}),
            "running | epoch 3 #######--------- 176/391 5.1/s 0:42 left | epoch 3, eval/accuracy 0.98, loss 0.3126 | "
            "checkpoint_000042");
  RunStatus starting;
  starting.state = "starting";
  EXPECT_EQ(status_line(starting, {.colour = false}), "starting");
  EXPECT_EQ(status_line(sample(), {.columns = 200, .colour = true}).substr(0, 18), "\x1b[1;32mrunning\x1b[0m");
}

TEST(StatusLine, LeavesTheLastColumnAndRoomForAnEcho) {
  for (const bool unicode : {true, false}) {
    const std::string whole = status_line(sample(), {.columns = 1000, .unicode = unicode, .colour = false});
    for (int columns = 1; columns < 160; ++columns) {
      const std::string line = status_line(sample(), {.columns = columns, .unicode = unicode, .colour = false});
      EXPECT_LE(width(line), static_cast<size_t>(std::max(1, columns - 3)));
      EXPECT_TRUE(line == whole || line.ends_with(unicode ? "…" : "~")) << line;
    }
  }
}

TEST(StatusLine, ShowsNothingThatMovesTheCursor) {
  RunStatus status = sample();
  status.progress.label = "épo\nch\x1b[2J";
  const std::string line = status_line(status, {.columns = 200, .unicode = false, .colour = false});
  EXPECT_THAT(line, HasSubstr("?po\\nch\\x1b[2J"));
  EXPECT_THAT(status_line(status, {.columns = 200, .colour = false}),
              AllOf(HasSubstr("épo\\nch"), Not(HasSubstr("\n"))));
  status.metrics = {
      {"a\xc2\x9b"
       "2J",
       "\xff"}};
  for (const bool unicode : {true, false}) {
    EXPECT_THAT(status_line(status, {.columns = 200, .unicode = unicode, .colour = false}),
                HasSubstr("a\\xc2\\x9b2J \\xff"));
  }
}

TEST(StatusLine, CutsBetweenWideCharacters) {
  RunStatus status;
  status.state = "東京東京";
  EXPECT_EQ(status_line(status, {.columns = 11, .colour = false}), "東京東京");
  EXPECT_EQ(status_line(status, {.columns = 10, .colour = false}), "東京東…");
  EXPECT_EQ(status_line(status, {.columns = 9, .colour = false}), "東京…");
}

TEST(StatusLine, WordsForLogs) {
  EXPECT_EQ(progress_text({.label = "epoch 3", .done = 176, .total = 391, .rate = 5.12}),
            "epoch 3: 45 % (176/391), 5.1/s, 0:42 left");
  EXPECT_EQ(progress_text({.label = "epoch 3", .done = 391, .total = 391, .rate = 512}),
            "epoch 3: 100 % (391/391), 512/s");
  EXPECT_EQ(progress_text({.label = "epoch 0", .done = 10, .total = 98, .rate = 0.0337}),
            "epoch 0: 10 % (10/98), 29.7 s each, 43:31 left");
  EXPECT_EQ(progress_text({.label = "stream", .done = 12}), "stream: 12 steps");
  EXPECT_EQ(duration_text(59.6), "1:00");
  EXPECT_EQ(duration_text(7384), "2:03:04");
  EXPECT_EQ(duration_text(std::numeric_limits<double>::infinity()), "-");
  EXPECT_EQ(metrics_text({{"loss", std::nan("")}, {"ok", true}, {"list", {1, 2}}}), "loss nan, ok true");
}

}  // namespace
}  // namespace paceline::track
