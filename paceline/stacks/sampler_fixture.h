// Threads that compute for a while, and what a sampler has seen of them.
#pragma once

#include <unistd.h>

#include <chrono>
#include <ctime>
#include <functional>
#include <latch>
#include <thread>
#include <utility>

#include "paceline/core/posix/kernel_file.h"
#include "paceline/stacks/sampled_profile.h"
#include "paceline/stacks/sampler.h"

namespace paceline::stacks {

constexpr auto kLong = std::chrono::minutes(5);  // until the test ends it

// Whether this thread has had so much processor time: tests end by that, however loaded the machine is.
[[gnu::noipa]] inline bool has_used(double seconds) {
  timespec used{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9 >= seconds;
}

inline SampleReader reader_of(const Sampler& sampler) {
  return SampleReader::open(sampler.memory().duplicate().ValueOrDie()).ValueOrDie();
}

inline Profile named(const SampleReader& reader) {
  Symbols symbols;
  return profile_of(reader, read_kernel_file("/proc/self/maps"), symbols);
}

// A thread that lives until the end, so that it has its timer from the start.
class Spinner {
 public:
  explicit Spinner(std::function<void()> work) {
    thread_ = std::thread([this, work = std::move(work)] {
      tid_ = ::gettid();
      ready_.count_down();
      begin_.wait();
      work();
    });
    ready_.wait();
  }
  ~Spinner() {
    begin();
    join();
  }
  Spinner(const Spinner&) = delete;
  Spinner& operator=(const Spinner&) = delete;

  void begin() {
    if (!std::exchange(has_begun_, true)) begin_.count_down();
  }
  void join() {
    if (thread_.joinable()) thread_.join();
  }
  pid_t tid() const { return tid_; }

 private:
  std::latch ready_{1};
  std::latch begin_{1};
  bool has_begun_ = false;
  pid_t tid_ = 0;
  std::thread thread_;
};

}  // namespace paceline::stacks
