#include <unistd.h>

#include <charconv>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>

#include "paceline/agent/process_tree_internal.h"

namespace paceline::agent {
namespace {

constexpr unsigned kExitingFlag = 0x4;  // PF_EXITING in the kernel's flags of a task

struct TaskStat {
  pid_t parent = 0;
  unsigned flags = 0;
};

// From /proc/…/stat: "pid (name) state parent group session terminal terminal_group flags …"; a name may hold anything.
std::optional<TaskStat> read_stat(const std::filesystem::path& folder) {
  std::ifstream file(folder / "stat");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  TaskStat stat;
  std::string state, group, session, terminal, terminal_group;
  if (!(fields >> state >> stat.parent >> group >> session >> terminal >> terminal_group >> stat.flags)) {
    return std::nullopt;
  }
  return stat;
}

// Whether a thread blocks every signal that can be blocked, as housekeeping threads of libraries do from their start.
bool blocks_all_signals(const std::filesystem::path& folder) {
  constexpr uint64_t kBlockable = 0x7ffbfeff;  // 1 to 31 without SIGKILL and SIGSTOP
  std::ifstream file(folder / "status");
  std::string name;
  while (file >> name && name != "SigBlk:") file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  uint64_t blocked = 0;
  return file >> std::hex >> blocked && (blocked & kBlockable) == kBlockable;
}

// The numbered folders in `folder`; it may change or vanish under us.
std::vector<pid_t> numbered_folders(const std::filesystem::path& folder) {
  std::vector<pid_t> numbers;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename();
    pid_t number = 0;
    const auto [rest, problem] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (problem == std::errc() && rest == name.data() + name.size()) numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

int count_threads() {
  int threads = 1;
  for (const pid_t thread : numbered_folders("/proc/self/task")) {
    if (thread == ::gettid()) continue;
    const std::filesystem::path folder = "/proc/self/task/" + std::to_string(thread);
    const auto stat = read_stat(folder);
    if (stat && (stat->flags & kExitingFlag) == 0 && !blocks_all_signals(folder)) ++threads;
  }
  return threads;
}

std::vector<pid_t> children_by_parent(pid_t pid) {
  std::vector<pid_t> children;
  for (const pid_t candidate : numbered_folders("/proc")) {
    const auto stat = read_stat("/proc/" + std::to_string(candidate));
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

void kill_tree_from_outside(pid_t pid) {
  // Parents first: what they can no longer see dying they cannot replace.
  const std::vector<pid_t> children = children_of(pid);
  ::kill(-pid, SIGKILL);
  ::kill(pid, SIGKILL);
  for (const pid_t child : children) kill_tree_from_outside(child);
}

}  // namespace paceline::agent
