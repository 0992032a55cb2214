#include <fcntl.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <system_error>
#include <vector>

#include "paceline/agent/fork/forkable.h"
#include "paceline/agent/process_tree_internal.h"
#include "paceline/core/posix/kernel_file.h"

namespace paceline::agent {
namespace {

// Memory without a file that a process and its forks write to together: what it is called, "" where there is none. None
// outlives an exec: also what a library has mapped before main() is the program's own.
std::string shared_memory() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::string addresses, permissions;
    words >> addresses >> permissions;
    const size_t name = std::min(line.find('/'), line.find('['));
    if (!permissions.starts_with("rw") || !permissions.ends_with("s") || name == std::string::npos) continue;
    if (line.ends_with("(deleted)") || line.substr(name).starts_with("[anon_shmem:")) return line.substr(name);
  }
  return "";
}

bool is_running(__itimer_which_t which) {
  itimerval timer{};
  return ::getitimer(which, &timer) == 0 && timerisset(&timer.it_value);
}

// A fork inherits none. An alarm that was set from the start is its parent's affair: an exec keeps it.
bool has_timers(bool alarm_from_start) {
  if ((is_running(ITIMER_REAL) && !alarm_from_start) || is_running(ITIMER_VIRTUAL) || is_running(ITIMER_PROF)) {
    return true;
  }
  return std::ifstream("/proc/self/timers").peek() != std::ifstream::traits_type::eof();
}

struct ProgramStart {
  std::map<int, std::string> descriptors;  // inherited: what libraries have opened by then is closed on exec
  std::vector<pid_t> threads;              // of libraries
  SignalSetup signals;
  bool alarm = false;
};

// What /proc says that each is; without the standard streams.
std::map<int, std::string> open_descriptors() {
  std::map<int, std::string> found;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string what = std::filesystem::read_symlink(entry->path(), error);
    const bool is_the_iterators = what == "/proc/" + std::to_string(::getpid()) + "/fd";
    const int number = std::stoi(entry->path().filename());
    if (!error && !is_the_iterators && number > STDERR_FILENO) found.emplace(number, what);
  }
  return found;
}

std::string name_of_thread(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

SignalSetup current_signals() {
  SignalSetup setup;
  for (int signal = 1; signal < NSIG; ++signal) ::sigaction(signal, nullptr, &setup.dispositions[signal]);
  ::sigprocmask(SIG_BLOCK, nullptr, &setup.blocked);
  return setup;
}

ProgramStart& program_start() {
  static ProgramStart start;
  return start;
}

// 101 is the first priority that is not the compiler's own; objects without one come after all that have one.
[[gnu::constructor(101)]] void note_program_start() {
  std::map<int, std::string> inherited = open_descriptors();
  std::erase_if(inherited, [](const auto& entry) {
    const int flags = ::fcntl(entry.first, F_GETFD);
    return flags >= 0 && (flags & FD_CLOEXEC) != 0;
  });
  program_start() = {std::move(inherited), housekeeping_threads(), current_signals(), is_running(ITIMER_REAL)};
}

}  // namespace

SignalSetup own_signal_setup() {
  const SignalSetup& start = program_start().signals;
  SignalSetup own = current_signals();
  for (int signal = 1; signal < NSIG; ++signal) {
    const bool inherited = own.dispositions[signal].sa_handler == SIG_IGN &&  // handlers do not outlive an exec
                           start.dispositions[signal].sa_handler == SIG_IGN;
    if (inherited) own.dispositions[signal] = {};
    if (::sigismember(&start.blocked, signal) == 1) ::sigdelset(&own.blocked, signal);
  }
  return own;
}

void apply(const SignalSetup& setup) {
  // Those that cannot be changed, SIGKILL and the C library's own, refuse.
  for (int signal = 1; signal < NSIG; ++signal) ::sigaction(signal, &setup.dispositions[signal], nullptr);
  ::sigprocmask(SIG_SETMASK, &setup.blocked, nullptr);
}

std::string why_not_forkable() {
  // Libraries' housekeeping does not matter to a worker, which has the libraries' own; a thread that the program has
  // started does, however quiet it is.
  std::vector<pid_t> others = other_threads();
  const std::vector<pid_t>& of_libraries = program_start().threads;
  for (const pid_t thread : housekeeping_threads()) {
    if (std::ranges::find(of_libraries, thread) == of_libraries.end()) others.push_back(thread);
  }
  if (!others.empty()) {
    std::string names = name_of_thread(::gettid());
    for (const pid_t thread : others) names += ", " + name_of_thread(thread);
    return "it had " + std::to_string(others.size() + 1) + " threads (" + names + ")";
  }
  const auto& before = program_start().descriptors;
  for (const auto& [number, what] : open_descriptors()) {
    const auto found = before.find(number);
    if (found != before.end() && found->second == what) continue;
    return "it had opened descriptor " + std::to_string(number) + " (" + what + ")";
  }
  if (const std::string memory = shared_memory(); !memory.empty()) {
    return "it had shared memory (" + memory + ") that all of its forks would write to";
  }
  if (has_timers(program_start().alarm)) return "it had a timer running, which a fork does not inherit";
  if (const std::string locked = parse_kernel_value(read_kernel_file("/proc/self/status"), "VmLck:");
      !locked.empty() && locked != "0") {
    return "it had locked " + locked + " kB of memory, and a fork does not inherit the locks";
  }
  return "";
}

}  // namespace paceline::agent
