#include "paceline/stacks/sampler.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <ctime>
#include <latch>
#include <thread>

#include "paceline/core/posix/thread.h"
#include "paceline/stacks/sampler_fixture.h"

namespace paceline::stacks {

// All of these end after so much processor time of their thread.
[[gnu::noipa]] uint64_t churn(uint64_t seed) {
  for (int i = 0; i < 100'000; ++i) seed = seed * 6364136223846793005U + 1442695040888963407U;
  return seed;
}
[[gnu::noipa]] uint64_t spin_for_the_profile(double seconds) {
  uint64_t sum = 1;
  while (!has_used(seconds)) sum += churn(sum);
  return sum;
}
[[gnu::noipa]] uint64_t spin_deep(int depth, double seconds) {
  volatile char space[4096] = {};
  return depth == 0 ? spin_for_the_profile(seconds) : spin_deep(depth - 1, seconds) + static_cast<uint64_t>(space[0]);
}

namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

// On a thread of its own, whose clock begins at 0.
pid_t spin_on_a_thread(double seconds) {
  pid_t tid = 0;
  std::thread([&] {
    tid = ::gettid();
    spin_for_the_profile(seconds);
  }).join();
  return tid;
}

int64_t samples_of(const SampleReader& reader, pid_t tid) {
  int64_t count = 0;
  for (size_t i = 0; i < reader.size(); ++i) {
    const auto sample = reader.at(i);
    if (sample && sample->thread.tid == tid) count += sample->count;
  }
  return count;
}

TEST(Sampler, AFunctionThatSpinsHasMostOfItsThread) {
  Spinner spinner([] { spin_for_the_profile(0.6); });
  auto sampler = Sampler::start({.length = kLong}).ValueOrDie();
  spinner.begin();
  spinner.join();
  sampler->stop();
  const SampleReader reader = reader_of(*sampler);
  EXPECT_TRUE(sampler->has_ended());
  EXPECT_EQ(reader.pid(), ::getpid());
  EXPECT_EQ(reader.problem(), "");
  EXPECT_EQ(reader.dropped(), 0);
  const int64_t count = samples_of(reader, spinner.tid());
  EXPECT_GE(count, 30);  // of 59, whose timer the kernel looks at 100 to 1000 times a second
  EXPECT_LE(count, 70);
  const Profile profile = named(reader);
  EXPECT_GE(count_of({profile}), count);
  const auto shares = function_shares({profile}, kNativeCode);
  const auto share = std::ranges::find_if(shares, [](const FunctionShare& one) {
    return one.function.find("spin_for_the_profile(double)") != std::string::npos;
  });
  ASSERT_NE(share, shares.end()) << to_folded({profile});
  EXPECT_GE(share->total * 10, count * 9) << to_folded({profile});
  EXPECT_THAT(share->function, HasSubstr("(sampler_test.cpp:"));
  EXPECT_THAT(to_folded({profile}), HasSubstr("spin_for_the_profile(double) (sampler_test.cpp);"));
}

TEST(Sampler, OfThreadsOnlyThoseThatComputeHaveSamples) {
  std::latch end{1};
  Spinner asleep([&] { end.wait(); });
  asleep.begin();
  Spinner one([] { spin_for_the_profile(0.3); });
  Spinner other([] { spin_for_the_profile(0.3); });
  auto sampler = Sampler::start({.length = kLong}).ValueOrDie();
  one.begin();
  other.begin();
  one.join();
  other.join();
  sampler->stop();
  end.count_down();
  const SampleReader reader = reader_of(*sampler);
  EXPECT_GE(samples_of(reader, one.tid()), 10);
  EXPECT_GE(samples_of(reader, other.tid()), 10);
  EXPECT_LE(samples_of(reader, asleep.tid()), 1);  // on its way to sleep
}

TEST(Sampler, AThreadThatBeginsLaterIsSeen) {
  auto sampler = Sampler::start({.length = kLong}).ValueOrDie();
  // It spins until it is known, and some more.
  std::atomic<bool> known = false;
  std::atomic<pid_t> tid = 0;
  std::thread later([&] {
    tid = ::gettid();
    while (!known) churn(1);
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    spin_for_the_profile(static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9 + 0.3);
  });
  const SampleReader reader = reader_of(*sampler);
  while (!known) {
    known = std::ranges::any_of(reader.threads(), [&](const SampledThread& one) { return one.tid == tid; });
    std::this_thread::yield();
  }
  later.join();
  sampler->stop();
  EXPECT_GE(samples_of(reader, tid), 10);
}

TEST(Sampler, AThreadThatBlocksTheSignalIsNamed) {
  std::latch ready{1};
  std::latch begin{1};
  std::latch done{1};
  std::latch end{1};
  std::thread blocked = start_thread([&] {
    ::pthread_setname_np(::pthread_self(), "deaf");
    ready.count_down();
    begin.wait();
    spin_for_the_profile(0.1);
    done.count_down();
    end.wait();
  });
  ready.wait();
  auto sampler = Sampler::start({.length = kLong}).ValueOrDie();
  begin.count_down();
  done.wait();
  sampler->stop();
  end.count_down();
  blocked.join();
  EXPECT_THAT(named(reader_of(*sampler)).problems, Contains(HasSubstr("block SIGPROF")));
  EXPECT_THAT(named(reader_of(*sampler)).problems, Contains(HasSubstr("deaf (0.1")));
}

TEST(Sampler, ADeepStackIsCut) {
  Spinner spinner([] { spin_deep(20, 0.3); });
  auto sampler = Sampler::start({.length = kLong}).ValueOrDie();
  spinner.begin();
  spinner.join();
  sampler->stop();
  EXPECT_THAT(to_folded({named(reader_of(*sampler))}), HasSubstr("(C++);[deeper than was copied];"));
}

TEST(Sampler, EndsByItselfAndTheNextBegins) {
  auto sampler = Sampler::start({.length = std::chrono::milliseconds(50)}).ValueOrDie();
  const SampleReader reader = reader_of(*sampler);
  EXPECT_TRUE(reader.wait_until(std::chrono::steady_clock::now() + kLong));
  EXPECT_TRUE(sampler->has_ended());
  EXPECT_GE(reader.seconds(), 0.05);
  auto next = Sampler::start({.length = kLong});
  EXPECT_TRUE(next.ok()) << next.status();
}

TEST(Sampler, OneAtATime) {
  auto sampler = Sampler::start({.length = kLong}).ValueOrDie();
  EXPECT_THAT(Sampler::start({}).status().message(), HasSubstr("already"));
}

void nothing(int) {}

TEST(Sampler, LeavesTheSignalToItsOwner) {
  ::signal(SIGPROF, nothing);
  const auto refused = Sampler::start({});
  ASSERT_TRUE(refused.status().IsInvalid());
  EXPECT_THAT(refused.status().message(), HasSubstr("has a handler of the signal SIGPROF"));
  EXPECT_EQ(::signal(SIGPROF, SIG_DFL), nothing);
  EXPECT_TRUE(Sampler::start({}).ok());
}

TEST(Sampler, EndsWhenSomebodyTakesTheSignal) {
  auto sampler = Sampler::start({.length = kLong}).ValueOrDie();
  ::signal(SIGPROF, nothing);
  const SampleReader reader = reader_of(*sampler);
  EXPECT_TRUE(reader.wait_until(std::chrono::steady_clock::now() + kLong));
  EXPECT_THAT(reader.problem(), HasSubstr("has taken the signal SIGPROF meanwhile"));
  ::signal(SIGPROF, SIG_DFL);
}

TEST(Sampler, ALateSignalDoesNothing) {
  Sampler::start({.length = kLong}).ValueOrDie()->stop();
  errno = 7;
  EXPECT_EQ(::raise(SIGPROF), 0);
  EXPECT_EQ(errno, 7);
}

// Its thread is interrupted again and again between two calls and in them.
TEST(Sampler, CallsThatWaitGoOn) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  auto sampler = Sampler::start({.rate = 1000, .length = kLong}).ValueOrDie();
  int failures = 0;
  Spinner reading([&] {
    char byte = 0;
    for (int i = 0; i < 100; ++i) {
      churn(1);
      if (::read(ends[0], &byte, 1) != 1) ++failures;
    }
  });
  reading.begin();
  for (int i = 0; i < 100; ++i) {
    spin_on_a_thread(0.002);
    if (::write(ends[1], "x", 1) != 1) ++failures;
  }
  reading.join();
  sampler->stop();
  EXPECT_EQ(failures, 0);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(Sampler, AForkedChildSamplesNothing) {
  auto sampler = Sampler::start({.length = kLong}).ValueOrDie();
  const pid_t child = ::fork();
  if (child == 0) {
    spin_for_the_profile(0.3);
    ::raise(SIGPROF);
    sampler.reset();
    ::_exit(Sampler::start({.length = kLong}).ok() ? 0 : 1);  // but it may do so itself
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  sampler->stop();
  EXPECT_EQ(status, 0);
  EXPECT_EQ(samples_of(reader_of(*sampler), child), 0);
}

TEST(Sampler, WhatHasNoRoomIsCounted) {
  Spinner spinner([] { spin_for_the_profile(0.5); });
  auto sampler = Sampler::start({.rate = 1000, .length = kLong, .most_samples = 1}).ValueOrDie();
  spinner.begin();
  spinner.join();
  sampler->stop();
  const SampleReader reader = reader_of(*sampler);
  EXPECT_EQ(reader.size(), 1u);
  EXPECT_GT(reader.dropped(), 0);
  EXPECT_THAT(named(reader).problems, Contains(HasSubstr("samples had no room")));
}

TEST(Sampler, SamplesLessOftenBeforeItsMemoryIsFull) {
  Spinner spinner([] { spin_for_the_profile(1.5); });
  auto sampler = Sampler::start({.length = std::chrono::seconds(20), .most_samples = 64}).ValueOrDie();
  spinner.begin();
  spinner.join();
  sampler->stop();
  const SampleReader reader = reader_of(*sampler);
  EXPECT_LT(reader.size(), 64u);
  const int64_t count = samples_of(reader, spinner.tid());
  EXPECT_GT(count, static_cast<int64_t>(reader.size()));
  EXPECT_GE(count, 75);  // of 148, of which the last ones may not have come to a sample
  EXPECT_LE(count, 170);
}

TEST(Sampler, RefusesWhatIsNotItsMemory) {
  const SharedMemory other = SharedMemory::create("other", size_t{1} << 20).ValueOrDie();
  EXPECT_FALSE(SampleReader::open(other.descriptor().duplicate().ValueOrDie()).ok());
}

}  // namespace
}  // namespace paceline::stacks
