#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <filesystem>
#include <fstream>
#include <random>

#include "paceline/agent/output_internal.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::agent {
namespace {

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
  EXPECT_THAT(splitter.feed("\x1b[31mred\x1b[0m\r\x1b[1;32mgreen\x1b[0m\n"), ElementsAre("\x1b[1;32mgreen\x1b[0m"));
}

TEST(LineSplitter, LineEndsOfOtherSystemsAreLineEnds) {
  LineSplitter splitter;
  EXPECT_THAT(splitter.feed("one\r\n\r\n  two  \r\nthree  \n"), ElementsAre("one", "", "  two", "three  "));
}

TEST(LineSplitter, WhereverBarsAreCutTheyShowAndLeaveTheSame) {
  std::mt19937 random(11);
  const std::vector<std::string> pieces = {"\r", "\n",     "\r\n",   " ",       "      ",
                                           "7%", "a line", "\x1b[K", "\x1b[0m", "|##|"};
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
      EXPECT_EQ(splitter.bar().find_first_of("\r\n"), std::string::npos);
    }
    EXPECT_EQ(lines, expected);
    EXPECT_EQ(splitter.finish(), whole.finish());
    for (const std::string& line : lines) EXPECT_EQ(line.find('\r'), std::string::npos);
  }
}

class OutputPipeTest : public ::testing::Test {
 protected:
  OutputPipeTest() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) ADD_FAILURE() << "no pipe";
    reader_ = Descriptor(ends[0]);
    writer_ = Descriptor(ends[1]);
    ::fcntl(writer_.get(), F_SETFL, O_NONBLOCK);
  }
  void open(bool waits) {
    pipe_ = std::make_shared<OutputPipe>(loop_, std::move(reader_), "stdout", waits,
                                         [this](rpc::Output output) { outputs_.push_back(std::move(output)); });
    pipe_->start();
  }
  // Whether it went in whole.
  bool write(const std::string& text) {
    return ::write(writer_.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  }
  // All that is there now.
  void read() {
    loop_.restart();
    while (loop_.poll() > 0) {
    }
  }
  int64_t bytes() const {
    int64_t bytes = 0;
    for (const rpc::Output& output : outputs_) bytes += rpc::bytes_of(output);
    return bytes;
  }

  boost::asio::io_context loop_;
  Descriptor reader_;
  Descriptor writer_;
  std::shared_ptr<OutputPipe> pipe_;
  std::vector<rpc::Output> outputs_;
};

TEST_F(OutputPipeTest, AWriterWaitsUntilWhatItWroteIsTaken) {
  open(/*waits=*/true);
  const std::string line = std::string(1023, 'x') + "\n";
  int64_t written = 0;
  for (bool goes_in = true; goes_in;) {
    for (goes_in = false; write(line); goes_in = true) written += std::ssize(line);
    read();
  }
  EXPECT_LE(bytes(), OutputPipe::kMostUntaken + (64 << 10)) << "the rest is in the pipe, and its writer waits";
  EXPECT_LT(bytes(), written);
  pipe_->note_taken(bytes());
  read();
  EXPECT_EQ(bytes(), written) << "nothing is lost";
  EXPECT_TRUE(write(line));
}

TEST_F(OutputPipeTest, AWriterOfAnyOtherStreamNeverWaits) {
  open(/*waits=*/false);
  const std::string text(OutputPipe::kMostUntaken / 8, '\n');
  for (int i = 0; i < 64; ++i) {
    ASSERT_TRUE(write(text));
    read();
  }
  EXPECT_EQ(bytes(), 64 * std::ssize(text));
}

TEST_F(OutputPipeTest, ABarIsToldNowAndThenAndWithdrawnWithItsLine) {
  open(/*waits=*/true);
  for (int i = 1; i <= 50; ++i) {
    ASSERT_TRUE(write("\r" + std::to_string(i) + "/50"));
    read();
  }
  EXPECT_EQ(outputs_.size(), 0u);
  loop_.restart();
  loop_.run_one();  // the time comes
  ASSERT_EQ(outputs_.size(), 1u);
  EXPECT_EQ(outputs_[0].bar, "50/50");
  EXPECT_THAT(outputs_[0].lines, ElementsAre());
  ASSERT_TRUE(write("\n"));
  read();
  ASSERT_EQ(outputs_.size(), 2u);
  EXPECT_EQ(outputs_[1].bar, "");
  EXPECT_THAT(outputs_[1].lines, ElementsAre("50/50"));
}

TEST_F(OutputPipeTest, AnUnfinishedBarIsTheLastLine) {
  open(/*waits=*/false);
  ASSERT_TRUE(write("\r1/50\r2/50"));
  pipe_->drain();
  ASSERT_EQ(outputs_.size(), 1u);
  EXPECT_THAT(outputs_[0].lines, ElementsAre("2/50"));
  EXPECT_FALSE(outputs_[0].bar);
}

class LogFileTest : public ::testing::Test {
 protected:
  // What the files hold, the oldest first.
  std::string kept() {
    std::string text;
    for (int number = 20; number >= 0; --number) {
      const std::string path = path_ + (number == 0 ? "" : "." + std::to_string(number));
      std::ifstream file(path);
      text.append(std::istreambuf_iterator<char>(file), {});
    }
    return text;
  }
  paceline::testing::TemporaryFolder folder_;
  const std::string path_ = folder_ / "worker_7.log";
};

TEST_F(LogFileTest, WithoutALimitEverythingStays) {
  auto log = RotatingLog::open(path_, {}).ValueOrDie();
  for (int i = 0; i < 100; ++i) log.append({"line"});
  EXPECT_EQ(kept().size(), 500u);
  EXPECT_THAT(paceline::testing::names_in(folder_.path()), ElementsAre("worker_7.log"));
}

TEST_F(LogFileTest, OfAFloodTheEndStaysInWholeLines) {
  auto log = RotatingLog::open(path_, {.file_bytes = 1000, .most_files = 3}).ValueOrDie();
  std::string all;
  for (int i = 0; i < 2000; ++i) {
    const Lines lines = {"line " + std::to_string(2 * i), "line " + std::to_string(2 * i + 1)};
    for (const std::string& line : lines) all += line + "\n";
    log.append(lines);
  }
  EXPECT_THAT(paceline::testing::names_in(folder_.path()),
              ElementsAre("worker_7.log", "worker_7.log.1", "worker_7.log.2"));
  for (const std::string& name : paceline::testing::names_in(folder_.path())) {
    EXPECT_LE(std::filesystem::file_size(folder_ / name), 1000u);
  }
  const std::string text = kept();
  EXPECT_GT(text.size(), 1900u);
  EXPECT_TRUE(all.ends_with("\n" + text)) << "whole lines, none missing between";
}

TEST_F(LogFileTest, OneCallMayFillManyFiles) {
  auto log = RotatingLog::open(path_, {.file_bytes = 10, .most_files = 2}).ValueOrDie();
  log.append({"one", "two", "a line that is longer than a file", "three", "four", "five"});
  EXPECT_EQ(kept(), "three\nfour\nfive\n");
}

TEST_F(LogFileTest, ALogThatIsThereIsContinued) {
  RotatingLog::open(path_, {.file_bytes = 10, .most_files = 2})->append({"before"});
  RotatingLog::open(path_, {.file_bytes = 10, .most_files = 2})->append({"after"});
  EXPECT_EQ(kept(), "before\nafter\n");
  RotatingLog::open(path_, {.file_bytes = 10, .most_files = 1})->append({"only this"});
  EXPECT_EQ(paceline::testing::names_in(folder_.path()).size(), 2u) << "files of an earlier limit stay";
}

}  // namespace
}  // namespace paceline::agent
