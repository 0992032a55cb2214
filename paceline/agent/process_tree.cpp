#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "paceline/agent/process_tree_internal.h"
#include "paceline/core/posix/kernel_file.h"
#include "paceline/core/posix/pidfd.h"
#include "paceline/core/posix/process_stat.h"

namespace paceline::agent {
namespace {

constexpr int64_t kExitingFlag = 0x4;  // PF_EXITING in the kernel's flags of a task

// The number that all of `text` is; 0 for anything else.
template <class Number>
Number number_in(const std::string& text, int base = 10) {
  Number number = 0;
  const auto [rest, problem] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return problem == std::errc() && rest == text.data() + text.size() ? number : 0;
}

// Whether a thread blocks every signal that can be blocked, as housekeeping threads of libraries do from their start.
bool blocks_all_signals(const std::string& status) {
  constexpr uint64_t kBlockable = 0x7ffbfeff;  // 1 to 31 without SIGKILL and SIGSTOP
  return (number_in<uint64_t>(parse_kernel_value(status, "SigBlk:"), 16) & kBlockable) == kBlockable;
}

// The numbered folders in `folder`; it may change or vanish under us.
std::vector<pid_t> numbered_folders(const std::filesystem::path& folder) {
  std::vector<pid_t> numbers;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (const auto number = number_in<pid_t>(entry->path().filename()); number > 0) numbers.push_back(number);
  }
  return numbers;
}

struct Thread {
  pid_t id = 0;
  char state = '?';  // as ProcessStat has it
  bool blocks_all_signals = false;
  int64_t sleeps = 0;  // how often it has gone to sleep
};

std::vector<Thread> living_threads() {
  std::vector<Thread> threads;
  for (const pid_t id : numbered_folders("/proc/self/task")) {
    const std::string folder = "/proc/self/task/" + std::to_string(id);
    const auto stat = read_process_stat(folder);
    if (!stat || (stat->flags & kExitingFlag) != 0) continue;
    const std::string status = read_kernel_file(folder + "/status");
    threads.push_back({id, stat->state, blocks_all_signals(status),
                       parse_kernel_number(status, "voluntary_ctxt_switches:").value_or(0)});
  }
  return threads;
}

}  // namespace

std::vector<pid_t> other_threads() {
  constexpr int kAttempts = 100;
  for (int attempt = 1;; ++attempt) {
    std::vector<pid_t> threads;
    bool certain = true;
    for (const Thread& thread : living_threads()) {
      if (thread.id == ::gettid()) continue;
      // Every thread blocks all signals for its first moments, awake.
      const bool begins = thread.blocks_all_signals && thread.state != 'S';
      certain &= !begins;
      if (begins || !thread.blocks_all_signals) threads.push_back(thread.id);
    }
    if (certain || attempt == kAttempts) return threads;
    ::sched_yield();
  }
}

std::vector<pid_t> housekeeping_threads() {
  std::vector<pid_t> threads;
  for (const Thread& thread : living_threads()) {
    if (thread.id != ::gettid() && thread.blocks_all_signals) threads.push_back(thread.id);
  }
  return threads;
}

std::optional<std::map<pid_t, int64_t>> sleeps_of_housekeeping() {
  std::map<pid_t, int64_t> sleeps;
  for (const Thread& thread : living_threads()) {
    if (thread.id == ::gettid() || !thread.blocks_all_signals) continue;
    if (thread.state != 'S') return std::nullopt;
    sleeps[thread.id] = thread.sleeps;
  }
  return sleeps;
}

std::vector<pid_t> children_by_parent(pid_t pid) {
  std::vector<pid_t> children;
  for (const pid_t candidate : numbered_folders("/proc")) {
    const auto stat = read_process_stat("/proc/" + std::to_string(candidate));
    if (stat && stat->parent == pid) children.push_back(candidate);
  }
  return children;
}

std::vector<pid_t> children_of(pid_t pid) {
  static const bool has_children_files = std::filesystem::exists("/proc/thread-self/children");
  if (!has_children_files) return children_by_parent(pid);
  std::vector<pid_t> children;
  const std::string tasks = "/proc/" + std::to_string(pid) + "/task";
  for (const pid_t thread : numbered_folders(tasks)) {
    std::ifstream file(tasks + "/" + std::to_string(thread) + "/children");
    for (pid_t child; file >> child;) children.push_back(child);
  }
  return children;
}

arrow::Result<ProcessUsage> usage_below(pid_t pid) {
  std::vector<pid_t> below = children_of(pid);
  std::optional<ProcessUsage> together;
  for (size_t i = 0; i < below.size(); ++i) {
    const auto usage = process_usage(below[i]);
    if (!usage.ok()) continue;
    for (const pid_t child : children_of(below[i])) below.push_back(child);
    if (!together) together = {.started = usage->started};
    together->cpu_s += usage->cpu_s;
    together->resident_bytes += usage->resident_bytes;
  }
  if (!together) return arrow::Status::IOError("process ", pid, " has no children");
  return *together;
}

std::string variable_of(pid_t pid, const std::string& name) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/environ");
  for (std::string entry; std::getline(file, entry, '\0');) {
    if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
  }
  return "";
}

namespace {

void send_signal(int pidfd, int signal) {
  (void)::syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0);
}

bool is_alive(int pidfd) {
  pollfd event{pidfd, POLLIN, 0};
  return ::poll(&event, 1, 0) == 0;
}

// Stops the child `pid` of `parent`, which is stopped itself and so reaps nobody: while the child's parent is still
// that one, its number has not become another's since it was opened. Nothing when it is gone.
Descriptor hold(pid_t pid, pid_t parent) {
  auto pidfd = open_pidfd(pid);
  if (!pidfd.ok()) return {};
  const auto stat = read_process_stat("/proc/" + std::to_string(pid));
  if (!stat || stat->parent != parent) return {};
  send_signal(pidfd->get(), SIGSTOP);
  return *std::move(pidfd);
}

}  // namespace

void kill_tree_from_outside(pid_t pid, int pidfd) {
  // Who stands still starts no process that would be missed.
  send_signal(pidfd, SIGSTOP);
  std::map<pid_t, Descriptor> below;
  for (bool grows = true; grows;) {
    grows = false;
    std::vector<pid_t> parents = {pid};
    for (const auto& [known, held] : below) parents.push_back(known);
    for (const pid_t parent : parents) {
      for (const pid_t child : children_of(parent)) {
        if (below.contains(child) || !is_alive(pidfd)) continue;
        Descriptor held = hold(child, parent);
        if (!held) continue;
        below.emplace(child, std::move(held));
        grows = true;
      }
    }
  }
  if (is_alive(pidfd)) ::kill(-pid, SIGKILL);  // the group has its number as long as it is there
  send_signal(pidfd, SIGKILL);
  for (const auto& [child, held] : below) send_signal(held.get(), SIGKILL);
}

}  // namespace paceline::agent
