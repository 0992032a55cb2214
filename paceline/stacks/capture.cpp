#include "paceline/stacks/capture.h"

#include <elf.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "paceline/core/posix/descriptor.h"
#include "paceline/core/posix/kernel_file.h"
#include "paceline/stacks/mapping_internal.h"

namespace paceline::stacks {
namespace {

using Steady = std::chrono::steady_clock;

// Deeper stacks (runaway recursion) lose their outermost frames.
constexpr uint64_t kMostStack = uint64_t{1} << 20;
// What a function may use below its stack pointer.
constexpr uint64_t kRedZone = 128;

std::string read_line(const std::string& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

std::vector<pid_t> threads_of(pid_t pid) {
  std::vector<pid_t> threads;
  std::error_code error;
  const std::string folder = "/proc/" + std::to_string(pid) + "/task";
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename();
    pid_t tid = 0;
    std::from_chars(name.data(), name.data() + name.size(), tid);
    threads.push_back(tid);
  }
  std::ranges::sort(threads, {}, [pid](pid_t tid) { return tid == pid ? 0 : tid; });
  return threads;
}

Registers from_user(const user_regs_struct& user) {
  return {user.rax, user.rdx, user.rcx, user.rbx, user.rsi, user.rdi, user.rbp, user.rsp, user.r8,
          user.r9,  user.r10, user.r11, user.r12, user.r13, user.r14, user.r15, user.rip};
}

// A thread that is held: it stops in the constructor's wake and runs on, or stays stopped, after release().
class HeldThread {
 public:
  explicit HeldThread(pid_t tid) : tid_(tid) {}

  // 0, or an errno.
  int seize() {
    if (::ptrace(PTRACE_SEIZE, tid_, nullptr, nullptr) != 0) return errno;
    return ::ptrace(PTRACE_INTERRUPT, tid_, nullptr, nullptr) == 0 ? 0 : errno;
  }

  enum class Stop { stopped, ended, late };
  Stop wait(Steady::time_point deadline) {
    sigset_t child;
    ::sigemptyset(&child);
    ::sigaddset(&child, SIGCHLD);
    while (true) {
      int status = 0;
      const pid_t changed = ::waitpid(tid_, &status, __WALL | WNOHANG);
      if (changed < 0) return Stop::ended;
      if (changed == tid_) {
        if (!WIFSTOPPED(status)) return Stop::ended;
        // Stopped by a signal that was just on its way, rather than by us: it is handed on.
        if (status >> 16 != PTRACE_EVENT_STOP) signal_ = WSTOPSIG(status);
        return Stop::stopped;
      }
      const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(deadline - Steady::now()).count();
      if (left <= 0) return Stop::late;
      const timespec limit{left / 1'000'000'000, left % 1'000'000'000};
      ::sigtimedwait(&child, nullptr, &limit);
    }
  }

  bool copy(pid_t pid, const std::string& maps, ThreadSnapshot& into) const {
    user_regs_struct user{};
    iovec registers{&user, sizeof user};
    if (::ptrace(PTRACE_GETREGSET, tid_, reinterpret_cast<void*>(NT_PRSTATUS), &registers) != 0) return false;
    into.registers = from_user(user);
    const auto mapping = find_mapping(maps, user.rsp);
    if (!mapping) return true;
    into.stack_start = user.rsp - std::min<uint64_t>(user.rsp, kRedZone);
    into.stack.resize(std::min(mapping->end - into.stack_start, kMostStack));
    iovec local{into.stack.data(), into.stack.size()};
    iovec remote{reinterpret_cast<void*>(into.stack_start), into.stack.size()};
    const ssize_t copied = ::process_vm_readv(pid, &local, 1, &remote, 1, 0);
    into.stack.resize(copied < 0 ? 0 : static_cast<size_t>(copied));
    return true;
  }

  void release() const { ::ptrace(PTRACE_DETACH, tid_, nullptr, reinterpret_cast<void*>(int64_t{signal_})); }

 private:
  const pid_t tid_;
  int signal_ = 0;
};

// While it lives, SIGCHLD waits to be taken by sigtimedwait().
class ChildSignalBlocked {
 public:
  ChildSignalBlocked() {
    sigset_t child;
    ::sigemptyset(&child);
    ::sigaddset(&child, SIGCHLD);
    ::pthread_sigmask(SIG_BLOCK, &child, &before_);
  }
  ~ChildSignalBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  ChildSignalBlocked(const ChildSignalBlocked&) = delete;
  ChildSignalBlocked& operator=(const ChildSignalBlocked&) = delete;

 private:
  sigset_t before_;
};

arrow::Status refused(pid_t pid, int error) {
  if (error == ESRCH) return arrow::Status::IOError("there is no process ", pid);
  const std::string scope = read_line("/proc/sys/kernel/yama/ptrace_scope");
  return arrow::Status::IOError("process ", pid, " may not be traced: ", ::strerror(error),
                                scope.empty() || scope == "0"
                                    ? "; a container needs the capability SYS_PTRACE for this"
                                    : "; kernel.yama.ptrace_scope is " + scope + ", wanted 0, or 1 and an ancestor");
}

}  // namespace

arrow::Result<Snapshot> capture(pid_t pid, std::chrono::milliseconds patience) {
  const ChildSignalBlocked blocked;
  const auto deadline = Steady::now() + patience;
  const std::string process = "/proc/" + std::to_string(pid);
  Snapshot snapshot{.pid = pid, .maps = read_kernel_file(process + "/maps")};
  const std::vector<pid_t> threads = threads_of(pid);
  if (threads.empty()) return refused(pid, ESRCH);
  for (const pid_t tid : threads) {
    const std::string task = process + "/task/" + std::to_string(tid);
    ThreadSnapshot thread{.tid = tid, .name = read_line(task + "/comm")};
    const std::string stat = read_line(task + "/stat");
    const size_t name_end = stat.rfind(") ");
    if (name_end != std::string::npos) thread.state = stat.substr(name_end + 2, 1);

    HeldThread held(tid);
    const int error = held.seize();
    if (error != 0 && tid == pid) return refused(pid, error);
    const HeldThread::Stop stop = error == 0 ? held.wait(deadline) : HeldThread::Stop::ended;
    if (stop == HeldThread::Stop::stopped) {
      const auto start = Steady::now();
      if (!held.copy(pid, snapshot.maps, thread)) thread.problem = "its registers could not be read";
      held.release();
      const double pause = std::chrono::duration<double>(Steady::now() - start).count();
      snapshot.longest_pause_s = std::max(snapshot.longest_pause_s, pause);
    } else if (stop == HeldThread::Stop::late) {
      thread.problem = "it does not stop: it is in the kernel, in " + read_line(task + "/wchan");
    } else {
      continue;  // it ended meanwhile
    }
    snapshot.threads.push_back(std::move(thread));
  }
  return snapshot;
}

void allow_capture(pid_t tracer) {
  ::prctl(PR_SET_PTRACER, static_cast<unsigned long>(tracer), 0, 0, 0);
}

}  // namespace paceline::stacks
