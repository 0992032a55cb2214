#include "paceline/agent/fork/forkable.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <ctime>
#include <future>
#include <thread>

#include "paceline/core/posix/descriptor.h"
#include "paceline/core/posix/thread.h"

namespace paceline::agent {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Forkable, NamesWhatTheProgramHasOpened) {
  EXPECT_EQ(why_not_forkable(), "");
  const Descriptor file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  EXPECT_THAT(why_not_forkable(),
              AllOf(HasSubstr("had opened descriptor " + std::to_string(file.get())), HasSubstr("agent_test")));
}

TEST(Forkable, NamesMemoryThatForksWouldShare) {
  void* const memory = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  EXPECT_THAT(why_not_forkable(), HasSubstr("had shared memory (/dev/zero"));
  ::munmap(memory, 4096);
  EXPECT_EQ(why_not_forkable(), "");
}

// gprof's, for one.
TEST(Forkable, NamesTimers) {
  const itimerval soon{.it_value = {.tv_sec = 1000}};
  ::setitimer(ITIMER_PROF, &soon, nullptr);
  EXPECT_THAT(why_not_forkable(), HasSubstr("had a timer running"));
  const itimerval never{};
  ::setitimer(ITIMER_PROF, &never, nullptr);
  timer_t timer{};
  sigevent silent{};
  silent.sigev_notify = SIGEV_NONE;
  ASSERT_EQ(::timer_create(CLOCK_MONOTONIC, &silent, &timer), 0);
  const bool kernel_tells = ::access("/proc/self/timers", R_OK) == 0;
  EXPECT_EQ(why_not_forkable().empty(), !kernel_tells);
  ::timer_delete(timer);
  EXPECT_EQ(why_not_forkable(), "");
}

TEST(Forkable, NamesLockedMemory) {
  std::array<char, 4096> page{};
  // Not mlock(): sanitizers answer that themselves.
  if (::syscall(SYS_mlock, page.data(), page.size()) != 0) GTEST_SKIP() << "this process may not lock memory";
  EXPECT_THAT(why_not_forkable(), HasSubstr("kB of memory"));
  ::syscall(SYS_munlock, page.data(), page.size());
  EXPECT_EQ(why_not_forkable(), "");
}

TEST(Forkable, NamesTheThreads) {
  std::promise<void> begun, done;
  std::thread reader([&] {
    ::pthread_setname_np(::pthread_self(), "reader");
    begun.set_value();
    done.get_future().wait();
  });
  begun.get_future().wait();
  const std::string why = why_not_forkable();
  done.set_value();
  reader.join();
  EXPECT_THAT(why, AllOf(HasSubstr("had 2 threads"), HasSubstr("reader")));
}

TEST(Forkable, AThreadThatBlocksEverySignalCountsToo) {
  std::promise<void> begun, done;
  std::thread worker = start_thread([&] {
    begun.set_value();
    done.get_future().wait();
  });
  begun.get_future().wait();
  const std::string why = why_not_forkable();
  done.set_value();
  worker.join();
  EXPECT_THAT(why, HasSubstr("had 2 threads"));
}

TEST(Forkable, KnowsWhatTheProgramHasSetUpOfItsSignals) {
  std::signal(SIGUSR1, SIG_IGN);
  const SignalSetup setup = own_signal_setup();
  std::signal(SIGUSR1, SIG_DFL);
  EXPECT_EQ(setup.dispositions[SIGUSR1].sa_handler, SIG_IGN);
  EXPECT_EQ(setup.dispositions[SIGUSR2].sa_handler, SIG_DFL);
}

}  // namespace
}  // namespace paceline::agent
