#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>

#include "paceline/agent/output_internal.h"

namespace paceline::agent {
namespace {

using ::testing::ElementsAre;

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
  EXPECT_EQ(outputs_.size(), 1u);
  loop_.restart();
  loop_.run_one();  // and nothing has followed
  ASSERT_EQ(outputs_.size(), 2u);
  EXPECT_EQ(outputs_[1].bar, "");
  EXPECT_THAT(outputs_[1].lines, ElementsAre("50/50"));
}

TEST_F(OutputPipeTest, ABarThatHasEndedIsReleasedAfterWhatFollowsItInThePipe) {
  open(/*waits=*/false);
  ASSERT_TRUE(write("\router: 1/2\n"));
  read();
  ASSERT_TRUE(write("\rinner: 1/2\x1b[A"));
  pipe_->release();
  EXPECT_EQ(bytes(), 0) << "it has not ended";
  ASSERT_TRUE(write("\router: 2/2\n"));
  read();
  pipe_->release();
  EXPECT_THAT(outputs_.back().lines, ElementsAre("outer: 2/2"));
}

TEST_F(OutputPipeTest, AnUnfinishedBarIsTheLastLine) {
  open(/*waits=*/false);
  ASSERT_TRUE(write("\r1/50\r2/50"));
  pipe_->drain();
  ASSERT_EQ(outputs_.size(), 1u);
  EXPECT_THAT(outputs_[0].lines, ElementsAre("2/50"));
  EXPECT_FALSE(outputs_[0].bar);
}

TEST_F(OutputPipeTest, WhatIsThereIsToldAtOnceAndWhatComesLaterToo) {
  open(/*waits=*/false);
  ASSERT_TRUE(write("\r1/50\r50/50"));
  pipe_->settle();
  ASSERT_EQ(outputs_.size(), 1u);
  EXPECT_THAT(outputs_[0].lines, ElementsAre("50/50"));
  ASSERT_TRUE(write("at the exit\n"));
  read();
  EXPECT_THAT(outputs_.back().lines, ElementsAre("at the exit"));
  pipe_->drain();
  EXPECT_EQ(bytes(), std::ssize(std::string("50/50\nat the exit\n")));
}

}  // namespace
}  // namespace paceline::agent
