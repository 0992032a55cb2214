// sampling_cost: percent of a core that an agent takes to sample its node and eight workers each second: what it reads
// from the kernel, and the message that it sends. The workers are processes with 32 threads that sleep, and as many
// open files as those of a training have.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <CLI/CLI.hpp>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "paceline/agent/sampling/nvml.h"
#include "paceline/agent/sampling/sampling_thread.h"

namespace {

using namespace std::chrono_literals;

constexpr int kWorkers = 8;
constexpr int kThreads = 32;
constexpr int kFiles = 64;

double processor_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Ends with this process.
pid_t start_worker() {
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  for (int i = 0; i < kFiles; ++i) (void)::open("/dev/null", O_RDONLY | O_CLOEXEC);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back([] { ::pause(); });
  ::pause();
  ::_exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App program;
  int64_t iterations = 1, round = 0;
  std::string scratch, data;
  program.add_option("--iterations", iterations);
  program.add_option("--round", round);
  program.add_option("--scratch", scratch);
  program.add_option("--data", data);
  CLI11_PARSE(program, argc, argv);
  std::vector<pid_t> workers;
  for (int i = 0; i < kWorkers; ++i) workers.push_back(start_worker());
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<double> taken;  // processor time at each sample
  {
    paceline::agent::SamplingThread sampling(
        1s, [] { return paceline::agent::open_nvml(paceline::agent::load_nvml()); },
        [&](const std::string&) {
          const std::lock_guard lock(mutex);
          taken.push_back(processor_seconds());
          changed.notify_one();
        });
    for (int i = 0; i < kWorkers; ++i) {
      sampling.watch({.worker = i + 1, .role = "worker", .pid = workers[static_cast<size_t>(i)], .folder = scratch});
    }
    std::unique_lock lock(mutex);
    // The first opens files and counts what is there; some ten seconds go round what is not looked at each time.
    changed.wait(lock, [&] { return std::ssize(taken) > iterations + 1; });
  }
  for (const pid_t worker : workers) ::kill(worker, SIGKILL);
  while (::wait(nullptr) > 0) {
  }
  std::string samples;
  for (size_t i = 2; i < taken.size(); ++i) {
    samples += (samples.empty() ? "" : ", ") + std::to_string(100 * (taken[i] - taken[i - 1]));
  }
  std::printf("{\"samples\": [%s]}\n", samples.c_str());
}
