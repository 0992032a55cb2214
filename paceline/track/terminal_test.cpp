#include "paceline/track/terminal.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

#include "paceline/core/posix/descriptor.h"

namespace paceline::track {
namespace {

using namespace std::chrono_literals;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

// What was written to one end and not yet read.
std::string available(const Descriptor& end) {
  std::string text;
  char buffer[4096];
  for (ssize_t count; (count = ::read(end.get(), buffer, sizeof buffer)) > 0;) text.append(buffer, count);
  return text;
}

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

// The terminal's side of a pseudo-terminal or pipe, and ours.
struct Screen {
  ManualClock clock{from_seconds(1000)};
  Descriptor reader;
  std::unique_ptr<std::FILE, FileCloser> out;

  // A pipe.
  Screen() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) ADD_FAILURE() << "no pipe";
    reader = Descriptor(ends[0]);
    start(ends[1]);
  }
  // A pseudo-terminal.
  explicit Screen(int columns) {
    reader = Descriptor(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
    ::grantpt(reader.get());
    ::unlockpt(reader.get());
    start(::open(::ptsname(reader.get()), O_RDWR | O_NOCTTY | O_CLOEXEC));
    resize(columns);
  }
  void resize(int columns) {
    const winsize size{.ws_row = 24, .ws_col = static_cast<unsigned short>(columns)};
    ::ioctl(reader.get(), TIOCSWINSZ, &size);
  }
  std::string shown() { return available(reader); }

 private:
  void start(int descriptor) {
    ::fcntl(reader.get(), F_SETFL, O_NONBLOCK);
    out.reset(::fdopen(descriptor, "w"));
  }
};

// A terminal with the environment of a test.
std::unique_ptr<Terminal> make(Screen& screen, const char* locale = "C.UTF-8", const char* no_color = "",
                               const char* term = "xterm") {
  ::setenv("LC_ALL", locale, 1);
  ::setenv("NO_COLOR", no_color, 1);
  ::setenv("TERM", term, 1);
  return make_terminal(screen.out.get(), &screen.clock);
}

TEST(Terminal, DrawsOneLiveLineBelowTheLog) {
  Screen screen(100);
  const auto terminal = make(screen);
  terminal->state("running");
  EXPECT_EQ(screen.shown(), "\r\x1b[K\x1b[1;32mrunning\x1b[0m");
  terminal->log(LogLevel::warning, "slow disk");
  EXPECT_EQ(screen.shown(), "\r\x1b[K\x1b[33mwarning: \x1b[0mslow disk\r\n\x1b[1;32mrunning\x1b[0m");
  terminal->output("rank 1", "100 %");
  EXPECT_THAT(screen.shown(), HasSubstr("(rank 1)\x1b[0m 100 %\r\n"));
  terminal->checkpoint("checkpoint_000001");
  EXPECT_THAT(screen.shown(), EndsWith("\x1b[0m · checkpoint_000001"));
  terminal->finish();
  EXPECT_EQ(screen.shown(), "\r\x1b[K");
  terminal->log(LogLevel::info, "the end");
  terminal->state("finished");
  EXPECT_EQ(screen.shown(), "the end\r\n");
}

TEST(Terminal, DrawsAtMostTenTimesASecond) {
  Screen screen(100);
  const auto terminal = make(screen);
  for (int step = 1; step <= 100; ++step) {
    terminal->progress("epoch 0", step, 1000, 100);
    terminal->metrics({{"loss", step}});
    screen.clock.advance(10ms);
  }
  const std::string shown = screen.shown();
  int draws = 0;
  for (size_t at = shown.find("\x1b[K"); at != std::string::npos; at = shown.find("\x1b[K", at + 1)) ++draws;
  EXPECT_EQ(draws, 10);
  terminal->progress("epoch 0", 1000, 1000, 100);
  EXPECT_THAT(screen.shown(), HasSubstr("1000/1000"));
}

TEST(Terminal, AsksForTheWidthWhenItDraws) {
  Screen screen(100);
  const auto terminal = make(screen, "C.UTF-8", "1");
  terminal->checkpoint("checkpoint_000001");
  EXPECT_THAT(screen.shown(), EndsWith("checkpoint_000001"));
  screen.resize(14);
  terminal->state("running");
  EXPECT_EQ(screen.shown(), "\r\x1b[Krunning · …");
}

TEST(Terminal, KeepsToAsciiAndWithoutColourWhereAsked) {
  Screen screen(100);
  const auto terminal = make(screen, "C", "1");
  terminal->progress("epoch 0", 1, 2, 1);
  terminal->state("running");
  terminal->log(LogLevel::error, "bad");
  const std::string shown = screen.shown();
  EXPECT_THAT(shown, AllOf(HasSubstr("error: bad"), HasSubstr("running | epoch 0 ########--------"),
                           Not(HasSubstr("\x1b[0m"))));
  for (const char byte : shown) EXPECT_LT(static_cast<unsigned char>(byte), 0x80);
}

TEST(Terminal, ABarIsShownWithoutItsColours) {
  Screen screen(100);
  const auto terminal = make(screen, "C", "1");
  terminal->bar("rank 0", "\x1b[32mtrain:\x1b[0m 50 %");
  terminal->state("running");
  EXPECT_THAT(screen.shown(), AllOf(HasSubstr("train: 50 %\r\nrunning"), Not(HasSubstr("[32m"))));
}

TEST(Terminal, BarsBelowEachOtherAreRowsOfTheirOwn) {
  Screen screen(20);
  const auto terminal = make(screen, "C", "1");
  terminal->state("running");
  screen.clock.advance(1s);
  terminal->bar("rank 0", "outer: 12345 of 6789\ninner");
  terminal->log(LogLevel::info, "line");
  EXPECT_EQ(screen.shown(),
            "\r\x1b[Krunning\r\x1b[Kouter: 12345 of 6789\r\ninner\r\nrunning"
            "\r\x1b[2A\x1b[Jline\r\nouter: 12345 of 6789\r\ninner\r\nrunning");
  terminal->bar("rank 0", "");
  EXPECT_EQ(screen.shown(), "\r\x1b[2A\x1b[Jrunning");
}

TEST(Terminal, ADumbTerminalGetsPlainLines) {
  Screen screen(100);
  const auto terminal = make(screen, "C", "", "dumb");
  terminal->state("running");
  terminal->log(LogLevel::info, "line");
  EXPECT_EQ(screen.shown(), "line\r\n");
}

TEST(Terminal, APipeGetsPlainLines) {
  Screen screen;
  const auto terminal = make(screen);
  terminal->state("running");
  terminal->checkpoint("checkpoint_000001");
  terminal->log(LogLevel::info, "two workers");
  terminal->log(LogLevel::error, "one is dead");
  terminal->output("rank 0", "hello");
  EXPECT_EQ(screen.shown(), "two workers\nerror: one is dead\n(rank 0) hello\n");
}

TEST(Terminal, APipeGetsProgressNowAndThen) {
  Screen screen;
  const auto terminal = make(screen);
  for (int step = 1; step <= 1000; ++step) {  // 100 s
    terminal->progress("epoch 0", step, 1000, 10);
    screen.clock.advance(100ms);
  }
  const std::string slow = screen.shown();
  EXPECT_EQ(std::count(slow.begin(), slow.end(), '\n'), 11);
  EXPECT_THAT(slow, AllOf(HasSubstr("epoch 0: 0 % (1/1000), 10.0/s, 1:40 left\n"),
                          HasSubstr("epoch 0: 50 % (500/1000)"), EndsWith("epoch 0: 100 % (1000/1000), 10.0/s\n")));
  for (int step = 1; step <= 10; ++step) {  // 10 short epochs in 5 s
    terminal->progress("epoch " + std::to_string(step), 1, 1, 2);
    screen.clock.advance(500ms);
  }
  const std::string quick = screen.shown();
  EXPECT_LE(std::count(quick.begin(), quick.end(), '\n'), 3);
}

TEST(Terminal, APipeGetsALongBarNowAndThen) {
  Screen screen;
  const auto terminal = make(screen);
  for (int step = 1; step < 200; ++step) {  // 20 s
    terminal->bar("rank 0", "train: " + std::to_string(step) + "/200");
    screen.clock.advance(100ms);
  }
  terminal->bar("rank 0", "");
  terminal->output("rank 0", "train: 200/200");
  EXPECT_EQ(screen.shown(),
            "(rank 0) train: 51/200\n(rank 0) train: 101/200\n(rank 0) train: 151/200\n(rank 0) train: 200/200\n");
  for (int step = 1; step <= 30; ++step) {  // a short one
    terminal->bar("rank 0", "validate: " + std::to_string(step) + "/30");
    screen.clock.advance(100ms);
  }
  terminal->bar("rank 0", "");
  EXPECT_EQ(screen.shown(), "");
  terminal->bar("rank 0", "outer\ninner");
  screen.clock.advance(5s);
  terminal->bar("rank 0", "outer\ninner");
  EXPECT_EQ(screen.shown(), "(rank 0) outer\n(rank 0) inner\n");
}

TEST(Terminal, APipeGetsTheLastMetricsInTheEnd) {
  Screen screen;
  const auto terminal = make(screen);
  for (int step = 1; step <= 100; ++step) terminal->metrics({{"step", step}});
  EXPECT_EQ(screen.shown(), "metrics: step 1\n");
  terminal->finish();
  EXPECT_EQ(screen.shown(), "metrics: step 100\n");
  terminal->finish();
  EXPECT_EQ(screen.shown(), "");
}

}  // namespace
}  // namespace paceline::track
