#include "paceline/stacks/wait_watch.h"

#include <gmock/gmock.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <ctime>
#include <mutex>
#include <string>
#include <thread>

#include "paceline/core/posix/kernel_file.h"
#include "paceline/stacks/held_thread_internal.h"
#include "paceline/testing/in_fork.h"

namespace paceline::stacks {

// Names that the tests look for.
[[gnu::noipa]] void wait_for_a_condition() {
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  while (true) never.wait(lock);
}
[[gnu::noipa]] void compute_all_the_time() {
  volatile uint64_t steps = 0;
  while (true) steps = steps + 1;
}
// Sleeps for as long as it computes: 20 ms of each, by the same clock.
[[gnu::noipa]] void wait_half_of_the_time() {
  const auto now = [] {
    timespec time{};
    ::clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1'000'000'000 + time.tv_nsec;
  };
  while (true) {
    const timespec pause{0, 20'000'000};
    ::nanosleep(&pause, nullptr);
    for (const int64_t begin = now(); now() < begin + 20'000'000;) {
    }
  }
}

namespace {

using ::testing::HasSubstr;

// What the forked process and the test see alike.
struct Shared {
  std::atomic<int> started = 0;
  std::atomic<int> interrupted = 0;
};

class WaitingChild {
 public:
  explicit WaitingChild(void (*work)(Shared&), int threads) {
    void* const memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared_ = new (memory) Shared;
    pid_ = ::fork();
    if (pid_ == 0) {
      ::alarm(120);
      work(*shared_);
      ::_exit(0);
    }
    while (shared_->started < threads) std::this_thread::yield();
  }
  ~WaitingChild() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ::munmap(shared_, sizeof(Shared));
  }
  WaitingChild(const WaitingChild&) = delete;
  WaitingChild& operator=(const WaitingChild&) = delete;

  pid_t pid() const { return pid_; }
  Shared& shared() const { return *shared_; }

 private:
  Shared* shared_ = nullptr;
  pid_t pid_ = 0;
};

std::thread named_thread(Shared& shared, const char* name, void (*work)()) {
  return std::thread([&shared, name, work] {
    ::pthread_setname_np(::pthread_self(), name);
    ++shared.started;
    work();
  });
}

// Once it has come to its wait.
void until_it_waits(pid_t pid, const std::string& thread) {
  while (true) {
    for (const pid_t tid : threads_of(pid)) {
      const std::string task = "/proc/" + std::to_string(pid) + "/task/" + std::to_string(tid);
      if (read_kernel_file(task + "/stat").find("(" + thread + ") S") != std::string::npos) return;
    }
    std::this_thread::yield();
  }
}

Profile waits_of(pid_t pid, double seconds, size_t most_stacks = 1000) {
  std::vector<WaitWatch> watches;
  watches.push_back(WaitWatch::begin(pid, most_stacks).ValueOrDie());
  look_for(watches, std::chrono::duration<double>(seconds));
  Symbols symbols;
  return watches.front().profile(symbols);
}

// Of the thread's looks, how many found it so: in stacks with this function, or, with "", in any.
int64_t looks_of(const Profile& profile, const std::string& thread, const std::string& function) {
  int64_t count = 0;
  for (const ThreadProfile& one : profile.threads) {
    if (one.name != thread) continue;
    for (const CountedStack& stack : one.stacks) {
      const bool has = std::ranges::any_of(stack.frames, [&](int64_t at) {
        return profile.frames[static_cast<size_t>(at)].function.find(function) != std::string::npos;
      });
      if (function.empty() || has) count += stack.count;
    }
  }
  return count;
}

class WaitWatchOfThreads : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!paceline::testing::kForksMayStartThreads) GTEST_SKIP() << "forks cannot start threads";
  }
};

TEST_F(WaitWatchOfThreads, AThreadThatWaitsIsShownForTheWholeTimeWithItsStack) {
  const WaitingChild child(
      [](Shared& shared) {
        std::thread waiting = named_thread(shared, "waits", wait_for_a_condition);
        named_thread(shared, "computes", compute_all_the_time).join();
      },
      2);
  until_it_waits(child.pid(), "waits");
  const Profile profile = waits_of(child.pid(), 1);
  const auto looks = static_cast<int64_t>(kWaitRate);
  const int64_t waited = looks_of(profile, "waits", "wait_for_a_condition()");
  EXPECT_GE(waited, looks - 2) << to_folded({profile});
  EXPECT_LE(waited, looks);
  EXPECT_THAT(to_folded({profile}), HasSubstr("wait_for_a_condition() (wait_watch_test.cpp);"));
  EXPECT_EQ(looks_of(profile, "computes", "compute_all_the_time"), 0) << to_folded({profile});
  EXPECT_EQ(profile.ways, std::vector<std::string>{"ptrace"});
  EXPECT_EQ(profile.rate, kWaitRate);
}

TEST_F(WaitWatchOfThreads, AThreadThatComputesHasNoMoreThanItsTimeWithoutAProcessor) {
  const WaitingChild child([](Shared& shared) { named_thread(shared, "computes", compute_all_the_time).join(); }, 1);
  const Profile profile = waits_of(child.pid(), 0.5);
  EXPECT_EQ(looks_of(profile, "computes", ""), looks_of(profile, "computes", kWantsProcessor)) << to_folded({profile});
}

TEST_F(WaitWatchOfThreads, AWaitCountsForItsTime) {
  const WaitingChild child([](Shared& shared) { named_thread(shared, "both", wait_half_of_the_time).join(); }, 1);
  const Profile profile = waits_of(child.pid(), 2);
  const int64_t waited = looks_of(profile, "both", "wait_half_of_the_time()");
  const auto looks = static_cast<int64_t>(2 * kWaitRate);
  EXPECT_GT(waited, 0) << to_folded({profile});  // half, less what it had no processor for
  EXPECT_LT(waited, looks) << to_folded({profile});
}

// What was waited, wanted and run is all of the time, and no more.
TEST_F(WaitWatchOfThreads, TheTimesOfAThreadAddUp) {
  const WaitingChild child([](Shared& shared) { named_thread(shared, "both", wait_half_of_the_time).join(); }, 1);
  const Profile profile = waits_of(child.pid(), 2);
  const auto both = std::ranges::find(profile.threads, "both", &ThreadProfile::name);
  ASSERT_NE(both, profile.threads.end());
  const double told = static_cast<double>(looks_of(profile, "both", "")) / kWaitRate;
  EXPECT_LE(told, both->seconds + 1 / kWaitRate);
  EXPECT_LE(both->seconds, profile.seconds + 0.1);
}

TEST(WaitWatch, WaitsGoOnAsIfNobodyHadLooked) {
  const WaitingChild child(
      [](Shared& shared) {
        int ends[2];
        if (::pipe(ends) != 0) ::_exit(1);
        ++shared.started;
        while (true) {
          timespec pause{0, 3'000'000};
          if (::nanosleep(&pause, &pause) != 0) ++shared.interrupted;
          pollfd nothing{ends[0], POLLIN, 0};
          if (::poll(&nothing, 1, 3) != 0) ++shared.interrupted;
        }
      },
      1);
  const Profile profile = waits_of(child.pid(), 1);
  EXPECT_GT(count_of({profile}, kNativeCode), 10);
  EXPECT_EQ(child.shared().interrupted, 0);
}

TEST(WaitWatch, AStoppedProcessIsShownAndStaysStopped) {
  const WaitingChild child(
      [](Shared& shared) {
        ++shared.started;
        compute_all_the_time();
      },
      1);
  ::kill(child.pid(), SIGSTOP);
  int status = 0;
  ASSERT_EQ(::waitpid(child.pid(), &status, WUNTRACED), child.pid());
  const Profile profile = waits_of(child.pid(), 0.2);
  EXPECT_THAT(to_folded({profile}), HasSubstr("compute_all_the_time() (wait_watch_test.cpp);[stopped by a signal] "));
  EXPECT_THAT(read_kernel_file("/proc/" + std::to_string(child.pid()) + "/stat"), HasSubstr(") T "));
}

TEST_F(WaitWatchOfThreads, WaitsWithoutRoomCountForAnEarlierOneInTheSameCall) {
  const WaitingChild child([](Shared& shared) { named_thread(shared, "both", wait_half_of_the_time).join(); }, 1);
  const Profile profile = waits_of(child.pid(), 2, /*most_stacks=*/3);
  EXPECT_GE(looks_of(profile, "both", "wait_half_of_the_time()"), 4) << to_folded({profile});
}

TEST(WaitWatch, AProcessThatEndsKeepsWhatWasSeen) {
  const WaitingChild child(
      [](Shared& shared) {
        ++shared.started;
        wait_for_a_condition();
      },
      1);
  std::vector<WaitWatch> watches;
  watches.push_back(WaitWatch::begin(child.pid(), 10).ValueOrDie());
  look_for(watches, std::chrono::milliseconds(100));
  ::kill(child.pid(), SIGKILL);
  ::waitpid(child.pid(), nullptr, 0);
  look_for(watches, std::chrono::milliseconds(100));
  look_for(watches, std::chrono::milliseconds(300));
  Symbols symbols;
  const Profile profile = watches.front().profile(symbols);
  EXPECT_THAT(to_folded({profile}), HasSubstr("wait_for_a_condition()"));
  EXPECT_LT(profile.seconds, 0.3) << "while it lived";
  EXPECT_THAT(profile.problems, ElementsAre(HasSubstr("has ended meanwhile")));
}

TEST(WaitWatch, SaysThatThereIsNoSuchProcess) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(0);
  ::waitpid(pid, nullptr, 0);
  const auto watch = WaitWatch::begin(pid, 10);
  ASSERT_TRUE(watch.status().IsIOError());
  EXPECT_THAT(watch.status().message(), HasSubstr("there is no process " + std::to_string(pid)));
}

}  // namespace
}  // namespace paceline::stacks
