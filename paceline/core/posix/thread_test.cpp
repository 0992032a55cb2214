#include "paceline/core/posix/thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>

namespace paceline {
namespace {

using namespace std::chrono_literals;

// What a thread shares with its owner: it ends when it is released.
struct Desk {
  std::promise<void> release;
  std::atomic<bool> done = false;
};

struct Hanging {
  std::shared_ptr<Desk> desk = std::make_shared<Desk>();
  BackgroundThread thread{[desk = desk] {
    desk->release.get_future().wait();
    desk->done = true;
  }};
};

// Waits until only the caller knows the desk: the thread is gone, or past everything that it owns.
void wait_for_release(const std::shared_ptr<Desk>& desk) {
  while (desk.use_count() > 1) std::this_thread::yield();
}

TEST(ThreadTest, ThreadsBlockEverySignalAndTheirStarterKeepsItsMask) {
  sigset_t before, in_thread, after;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &before);
  BackgroundThread thread([&in_thread] { ::pthread_sigmask(SIG_SETMASK, nullptr, &in_thread); });
  ASSERT_TRUE(thread.finish(1min));
  ::pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (const int signal : {SIGINT, SIGTERM, SIGCHLD, SIGUSR1, SIGTTOU, SIGPIPE}) {
    EXPECT_EQ(::sigismember(&in_thread, signal), 1) << signal;
    EXPECT_EQ(::sigismember(&after, signal), ::sigismember(&before, signal)) << signal;
  }
}

TEST(BackgroundThreadTest, OneThatEndsInTimeIsJoined) {
  Hanging hanging;
  hanging.desk->release.set_value();
  EXPECT_TRUE(hanging.thread.finish(1min));
  EXPECT_TRUE(hanging.desk->done);
  EXPECT_EQ(hanging.desk.use_count(), 1) << "a joined thread has given back what it owned";
  EXPECT_TRUE(hanging.thread.finish(0s)) << "there is none any more";
}

TEST(BackgroundThreadTest, OneThatHangsIsDetachedAndOwnsWhatItTouches) {
  std::shared_ptr<Desk> desk;
  {
    Hanging hanging;
    desk = hanging.desk;
    EXPECT_FALSE(hanging.thread.finish(1ms));
    EXPECT_TRUE(hanging.thread.finish(0s)) << "the second call has nothing left to wait for";
  }
  EXPECT_FALSE(desk->done);
  desk->release.set_value();
  wait_for_release(desk);
  EXPECT_TRUE(desk->done);
}

TEST(BackgroundThreadTest, WaitingDoesNotDetach) {
  Hanging hanging;
  EXPECT_FALSE(hanging.thread.wait_until(BackgroundThread::Clock::now()));
  hanging.desk->release.set_value();
  EXPECT_TRUE(hanging.thread.finish(1min));
  EXPECT_TRUE(hanging.desk->done);
}

TEST(BackgroundThreadTest, DestructionDoesNotWait) {
  const std::shared_ptr<Desk> desk = Hanging().desk;
  desk->release.set_value();
  wait_for_release(desk);
  EXPECT_TRUE(desk->done);
}

TEST(BackgroundThreadTest, NoThreadHasEnded) {
  BackgroundThread none;
  EXPECT_TRUE(none.wait_until(BackgroundThread::Clock::now()));
  EXPECT_TRUE(none.finish(0s));
}

}  // namespace
}  // namespace paceline
