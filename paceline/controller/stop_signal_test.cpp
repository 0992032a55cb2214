#include <gtest/gtest.h>

#include <barrier>
#include <thread>

#include "paceline/controller/inbox.h"
#include "paceline/controller/stop_signal.h"

namespace paceline::controller {
namespace {

using namespace std::chrono_literals;

TEST(StopSignal, CountsWhatItHears) {
  StopSignal stop;
  stop.hear(SIGINT);
  stop.hear(SIGINT);
  EXPECT_EQ(take_count(stop.descriptor()), 2u);
  EXPECT_EQ(stop.signal(), SIGINT);
  EXPECT_EQ(stop.cause(), StopCause::interrupt);
}

constexpr StopSignal::Moment kStart{1000s};

TEST(StopSignal, ASecondSigtermCountsForTheThird) {
  StopSignal stop;
  stop.hear(SIGTERM, kStart);
  EXPECT_EQ(take_count(stop.descriptor()), 1u);
  stop.hear(SIGTERM, kStart + 1s);
  EXPECT_EQ(take_count(stop.descriptor()), 2u);
  EXPECT_EQ(stop.signal(), SIGTERM);
  EXPECT_EQ(stop.cause(), StopCause::terminated);
}

TEST(StopSignal, WhatAProcessAndItsGroupAreSentIsOneRequest) {  // as `timeout` does
  for (const int signal : {SIGTERM, SIGHUP}) {
    StopSignal stop;
    stop.hear(signal, kStart);
    stop.hear(signal, kStart + 20us);
    EXPECT_EQ(take_count(stop.descriptor()), 1u);
    EXPECT_EQ(stop.cause(), StopCause::terminated);
    stop.hear(signal, kStart + 2s);
    stop.hear(signal, kStart + 2s + 20us);
    EXPECT_EQ(take_count(stop.descriptor()), signal == SIGTERM ? 2u : 1u);
  }
}

TEST(StopSignal, TwoThreadsThatHearOneRequestAtTheSameMomentCountItOnce) {
  for (int round = 0; round < 200; ++round) {
    StopSignal stop;
    std::barrier both(2);
    const auto hear = [&] {
      both.arrive_and_wait();
      stop.hear(SIGTERM, kStart);
    };
    std::thread other(hear);
    hear();
    other.join();
    ASSERT_EQ(take_count(stop.descriptor()), 1u) << "round " << round;
  }
}

TEST(StopSignal, SighupAndSigtermTogetherAreOneRequest) {  // as systemd sends to the processes of a session
  StopSignal stop;
  stop.hear(SIGHUP, kStart);
  stop.hear(SIGTERM, kStart + 20ms);
  EXPECT_EQ(take_count(stop.descriptor()), 1u);
  EXPECT_EQ(stop.signal(), SIGHUP);
}

TEST(StopSignal, WhoPressesQuicklyIsHeard) {
  StopSignal stop;
  for (int i = 0; i < 3; ++i) stop.hear(SIGINT, kStart);
  EXPECT_EQ(take_count(stop.descriptor()), 3u);
}

TEST(StopSignalDeathTest, OneMoreThanTheThirdEndsTheProcess) {
  EXPECT_EXIT(
      {
        StopSignal stop;
        for (int i = 0; i < 3; ++i) stop.hear(SIGTERM, kStart + i * 1s);
      },
      ::testing::KilledBySignal(SIGTERM), "");
}

TEST(StopHandlersDeathTest, TheNextSignalEndsAProcessThatListensNoMore) {
  EXPECT_EXIT(
      {
        StopSignal stop;
        const StopHandlers handlers(stop, {SIGINT}, {SIGTERM});
        ::raise(SIGTERM);
        StopHandlers::let_end();
        ::raise(SIGINT);
      },
      ::testing::KilledBySignal(SIGINT), "");
}

TEST(StopHandlers, HearAndGiveBack) {
  static int users = 0;
  std::signal(SIGUSR1, [](int) { ++users; });
  std::signal(SIGHUP, SIG_IGN);  // nohup
  StopSignal stop;
  {
    const StopHandlers handlers(stop, {SIGUSR1}, {SIGUSR2, SIGHUP});
    for (const int signal : {SIGUSR1, SIGUSR2, SIGHUP}) ::raise(signal);
  }
  EXPECT_EQ(take_count(stop.descriptor()), 2u);
  EXPECT_EQ(users, 0);
  ::raise(SIGUSR1);
  EXPECT_EQ(users, 1);
  EXPECT_EQ(std::signal(SIGUSR2, SIG_DFL), SIG_DFL);
  StopHandlers::let_end();  // it touches no handler of the user's
  EXPECT_EQ(std::signal(SIGHUP, SIG_DFL), SIG_IGN);
  std::signal(SIGUSR1, SIG_DFL);
}

}  // namespace
}  // namespace paceline::controller
