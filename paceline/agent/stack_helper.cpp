#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <optional>
#include <string>

#include "paceline/agent/process_tree_internal.h"
#include "paceline/agent/stack_helper_internal.h"
#include "paceline/core/posix/kernel_file.h"
#include "paceline/core/posix/sealed_memory.h"
#include "paceline/stacks/capture.h"
#include "paceline/stacks/heap_dump.h"
#include "paceline/stacks/python.h"
#include "paceline/stacks/sampled_profile.h"
#include "paceline/stacks/self_capture.h"
#include "paceline/stacks/symbols.h"
#include "paceline/stacks/wait_watch.h"

namespace paceline::agent {
namespace {

constexpr int kOutput = 3;

// Leaves open: 0 and 1 (nothing), 2 (standard error), kOutput, and `others`, which are above that as all that the
// guardian has received is. A copy of the guardian's connections must not outlive it.
void keep_output(Descriptor output, std::vector<int> others) {
  ::dup2(output.release(), kOutput);
  std::ranges::sort(others);
  auto next = static_cast<unsigned>(kOutput + 1);
  for (const int other : others) {
    const auto kept = static_cast<unsigned>(other);
    if (kept > next) ::close_range(next, kept - 1, 0);
    next = kept + 1;
  }
  ::close_range(next, ~0U, 0);
}

void write_all(const std::string& text) {
  for (size_t written = 0; written < text.size();) {
    const ssize_t count = ::write(kOutput, text.data() + written, text.size() - written);
    if (count < 0) return;  // nobody reads any more
    written += static_cast<size_t>(count);
  }
}

// Workers and what they have started: programs of the user's under `paceline run`, loader processes.
std::vector<std::pair<WorkerId, pid_t>> with_children(std::vector<std::pair<WorkerId, pid_t>> workers) {
  constexpr size_t kMostProcesses = 1000;
  for (size_t i = 0; i < workers.size() && workers.size() < kMostProcesses; ++i) {
    const WorkerId worker = workers[i].first;
    for (const pid_t child : children_of(workers[i].second)) workers.emplace_back(worker, child);
  }
  std::ranges::stable_sort(workers, {}, [](const auto& one) { return one.first; });
  return workers;
}

// All are captured before the first is named, so that they belong to about the same time.
void tell_stacks(const std::vector<std::pair<WorkerId, pid_t>>& workers) {
  std::vector<arrow::Result<stacks::Snapshot>> snapshots;
  for (const auto& [worker, pid] : workers) snapshots.push_back(stacks::capture(pid));
  stacks::Symbols symbols;
  for (size_t i = 0; i < workers.size(); ++i) {
    stacks::WorkerStacks found{.worker = workers[i].first.value};
    if (snapshots[i].ok()) {
      found.stacks = symbols.name(*snapshots[i]);
      if (stacks::runs_python(snapshots[i]->maps)) {
        stacks::PythonStacks python = stacks::python_stacks(workers[i].second);
        found.stacks.python = std::move(python.text);
        found.stacks.python_problem = std::move(python.problem);
      }
    } else {
      found.stacks.pid = workers[i].second;
      found.stacks.problem = snapshots[i].status().message();
    }
    write_all(stacks::encode_lines({found}));
  }
}

void tell_crash(const stacks::Crash& crash) {
  stacks::Symbols symbols;
  write_all(stacks::encode_lines({{.stacks = symbols.name(crash.snapshot)}}));
}

// A process that is looked at while it is sampled.
struct ProfiledProcess {
  WorkerId worker;
  pid_t pid = 0;
  std::string maps;
  std::optional<stacks::SampleReader> samples;
  std::optional<stacks::PythonRecording> python;
  std::string problem;
};

std::string why_no_sampler(pid_t pid) {
  return "a program under `paceline run` has no sampler; its C++ can be seen with `perf record -g -p " +
         std::to_string(pid) + "`";
}

// For what naming takes once everything has been seen.
constexpr std::chrono::seconds kLate{5};

std::chrono::milliseconds until(std::chrono::steady_clock::time_point deadline) {
  const auto left = deadline - std::chrono::steady_clock::now();
  return std::chrono::ceil<std::chrono::milliseconds>(std::max(left, left.zero()));
}

std::chrono::steady_clock::time_point from_now(double seconds) {
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
}

std::vector<ProfiledProcess> begin_profiles(std::vector<ProfiledWorker> workers, double seconds, double rate) {
  std::vector<ProfiledProcess> processes;
  for (ProfiledWorker& worker : workers) {
    if (!worker.memory && worker.problem.empty()) {
      for (const auto& [id, pid] : with_children({{worker.worker, worker.pid}})) {
        if (pid != worker.pid) processes.push_back({.worker = id, .pid = pid, .problem = why_no_sampler(pid)});
      }
      continue;
    }
    ProfiledProcess process{.worker = worker.worker, .pid = worker.pid, .problem = std::move(worker.problem)};
    if (worker.memory) {
      auto samples = stacks::SampleReader::open(std::move(worker.memory));
      samples.ok() ? (void)process.samples.emplace(*std::move(samples))
                   : (void)(process.problem = samples.status().message());
    }
    processes.push_back(std::move(process));
  }
  for (ProfiledProcess& process : processes) {
    process.maps = read_kernel_file("/proc/" + std::to_string(process.pid) + "/maps");
    if (!stacks::runs_python(process.maps)) continue;
    process.python.emplace(process.pid, std::max<int64_t>(1, std::llround(seconds)), rate);
  }
  return processes;
}

// Those that sample do so already; nothing is unwound before they have ended, so as not to be in their way.
void tell_profiles(std::vector<ProfiledWorker> workers, double seconds, double rate) {
  ::setpriority(PRIO_PROCESS, 0, 5);
  const auto end = from_now(seconds);
  std::vector<ProfiledProcess> processes = begin_profiles(std::move(workers), seconds, rate);
  for (ProfiledProcess& process : processes) {
    if (process.samples && !process.samples->wait_until(end + kLate)) {
      process.problem = "the process has ended or stood still meanwhile; these are the samples until then";
    }
    // With the libraries that were loaded meanwhile.
    std::string maps = read_kernel_file("/proc/" + std::to_string(process.pid) + "/maps");
    if (!maps.empty()) process.maps = std::move(maps);
  }
  stacks::Symbols symbols;
  for (ProfiledProcess& process : processes) {
    stacks::Profile profile{.pid = process.pid, .rate = rate, .seconds = seconds};
    if (process.samples) profile = stacks::profile_of(*process.samples, process.maps, symbols);
    profile.worker = process.worker.value;
    if (!process.problem.empty()) profile.problems.insert(profile.problems.begin(), process.problem);
    if (process.python) {
      const stacks::PythonStacks python = process.python->finish(until(end + kLate));
      stacks::add_py_spy(python.text, profile);
      python.problem.empty() ? profile.ways.emplace_back("py-spy") : profile.problems.emplace_back(python.problem);
    }
    write_all(stacks::encode_lines({profile}));
  }
}

// A process whose threads' waits are looked at: its place among the watches, and the two recordings of Python, whose
// difference is where it waits.
struct WaitingProcess {
  WorkerId worker;
  pid_t pid = 0;
  std::optional<size_t> watch;
  std::optional<stacks::PythonRecording> all, running;
  std::string problem;
};

void add_python(WaitingProcess& process, std::chrono::steady_clock::time_point deadline, stacks::Profile& profile) {
  const stacks::PythonStacks all = process.all->finish(until(deadline));
  const stacks::PythonStacks running = process.running->finish(until(deadline));
  const std::string& problem = all.problem.empty() ? running.problem : all.problem;
  if (!problem.empty()) return profile.problems.push_back(problem);
  stacks::add_py_spy_waits(all.text, running.text, profile);
  profile.ways.emplace_back("py-spy");
}

void tell_waits(const std::vector<std::pair<WorkerId, pid_t>>& workers, double seconds) {
  constexpr size_t kMostStacks = 8192;  // of all together, as of a sampler
  constexpr size_t kFewestStacks = 256;
  std::vector<stacks::WaitWatch> watches;
  std::vector<WaitingProcess> processes;
  for (const auto& [worker, pid] : workers) {
    WaitingProcess process{.worker = worker, .pid = pid};
    auto watch = stacks::WaitWatch::begin(pid, std::max(kMostStacks / workers.size(), kFewestStacks));
    if (watch.ok()) {
      process.watch = watches.size();
      watches.push_back(*std::move(watch));
    } else {
      process.problem = watch.status().message();
    }
    if (process.watch && stacks::runs_python(read_kernel_file("/proc/" + std::to_string(pid) + "/maps"))) {
      const int64_t whole = std::max<int64_t>(1, std::llround(seconds));
      process.all.emplace(pid, whole, stacks::kWaitRate, stacks::PythonRecording::Threads::all);
      process.running.emplace(pid, whole, stacks::kWaitRate);
    }
    processes.push_back(std::move(process));
  }
  const auto end = from_now(seconds);
  stacks::look_for(watches, std::chrono::duration<double>(seconds));
  ::setpriority(PRIO_PROCESS, 0, 5);  // it looked in time, which it need not name in
  stacks::Symbols symbols;
  for (WaitingProcess& process : processes) {
    stacks::Profile profile{.pid = process.pid, .rate = stacks::kWaitRate, .seconds = seconds};
    if (process.watch) profile = watches[*process.watch].profile(symbols);
    profile.worker = process.worker.value;
    if (!process.problem.empty()) profile.problems.push_back(process.problem);
    if (process.all) add_python(process, end + kLate, profile);
    write_all(stacks::encode_lines({profile}));
  }
}

void tell_heaps(const std::vector<ProfiledWorker>& workers) {
  ::setpriority(PRIO_PROCESS, 0, 5);
  stacks::Symbols symbols;
  for (const ProfiledWorker& worker : workers) {
    if (!worker.memory) continue;
    stacks::Profile profile{.pid = worker.pid};
    const auto memory = SealedMemory::open(worker.memory);
    const auto heap = memory.ok() ? stacks::parse_heap_dump(memory->bytes()) : memory.status();
    if (heap.ok()) profile = stacks::profile_of(*heap, worker.pid, symbols);
    if (!heap.ok()) profile.problems.push_back(heap.status().message());
    profile.worker = worker.worker.value;
    write_all(stacks::encode_lines({profile}));
  }
}

// Not fork(): its handlers want locks of threads that the guardian has left behind in the driver.
template <class Work>
arrow::Result<pid_t> fork_helper(Descriptor output, std::vector<int> others, int limit_s, Work work) {
  const auto pid = static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, 0));
  if (pid < 0) return errno_status("forking the helper that reads stacks");
  if (pid > 0) return pid;
  ::prctl(PR_SET_NAME, "paceline-stacks");
  ::signal(SIGALRM, SIG_DFL);
  ::alarm(static_cast<unsigned>(limit_s));
  keep_output(std::move(output), std::move(others));
  work();
  ::_exit(0);
}

std::vector<int> memories_of(const std::vector<ProfiledWorker>& workers) {
  std::vector<int> memories;
  for (const ProfiledWorker& worker : workers) {
    if (worker.memory) memories.push_back(worker.memory.get());
  }
  return memories;
}

}  // namespace

arrow::Result<pid_t> fork_stack_helper(const std::vector<std::pair<WorkerId, pid_t>>& workers, Descriptor output) {
  return fork_helper(std::move(output), {}, kStackHelperSeconds, [&workers] { tell_stacks(with_children(workers)); });
}

arrow::Result<pid_t> fork_crash_helper(Descriptor memory, Descriptor output) {
  ARROW_ASSIGN_OR_RAISE(std::optional<stacks::Crash> crash, stacks::read_crash(std::move(memory)));
  if (!crash) return arrow::Status::Invalid("the process has noted no crash");
  return fork_helper(std::move(output), {}, kStackHelperSeconds, [&crash] { tell_crash(*crash); });
}

arrow::Result<pid_t> fork_profile_helper(std::vector<ProfiledWorker> workers, double seconds, double rate,
                                         Descriptor output) {
  return fork_helper(std::move(output), memories_of(workers),
                     static_cast<int>(std::ceil(seconds)) + kProfileHelperSeconds,
                     [&] { tell_profiles(std::move(workers), seconds, rate); });
}

arrow::Result<pid_t> fork_heap_helper(std::vector<ProfiledWorker> workers, Descriptor output) {
  return fork_helper(std::move(output), memories_of(workers), kProfileHelperSeconds, [&] { tell_heaps(workers); });
}

arrow::Result<pid_t> fork_wait_helper(const std::vector<ProfiledWorker>& workers, double seconds, Descriptor output) {
  return fork_helper(std::move(output), {}, static_cast<int>(std::ceil(seconds)) + kProfileHelperSeconds, [&] {
    std::vector<std::pair<WorkerId, pid_t>> wanted;
    for (const ProfiledWorker& worker : workers) wanted.emplace_back(worker.worker, worker.pid);
    tell_waits(with_children(std::move(wanted)), seconds);
  });
}

}  // namespace paceline::agent
