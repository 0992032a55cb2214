#include <elf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "paceline/core/posix/kernel_file.h"
#include "paceline/stacks/held_thread_internal.h"

namespace paceline::stacks {
namespace {

using Steady = std::chrono::steady_clock;

constexpr uint64_t kPage = 4096;

Registers from_user(const user_regs_struct& user) {
  return {user.rax, user.rdx, user.rcx, user.rbx, user.rsi, user.rdi, user.rbp, user.rsp, user.r8,
          user.r9,  user.r10, user.r11, user.r12, user.r13, user.r14, user.r15, user.rip};
}

sigset_t child_signal() {
  sigset_t child;
  ::sigemptyset(&child);
  ::sigaddset(&child, SIGCHLD);
  return child;
}

}  // namespace

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

int HeldThread::seize() {
  if (::ptrace(PTRACE_SEIZE, tid_, nullptr, nullptr) != 0) return errno;
  return ::ptrace(PTRACE_INTERRUPT, tid_, nullptr, nullptr) == 0 ? 0 : errno;
}

HeldThread::Stop HeldThread::wait(Steady::time_point deadline) {
  const sigset_t child = child_signal();
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

bool HeldThread::copy_registers(ThreadSnapshot& into) const {
  user_regs_struct user{};
  iovec registers{&user, sizeof user};
  if (::ptrace(PTRACE_GETREGSET, tid_, reinterpret_cast<void*>(NT_PRSTATUS), &registers) != 0) return false;
  into.registers = from_user(user);
  return true;
}

void HeldThread::release() const {
  ::ptrace(PTRACE_DETACH, tid_, nullptr, reinterpret_cast<void*>(int64_t{signal_}));
}

// Page by page, since what lies behind the last one need not be there.
void copy_stack(pid_t pid, uint64_t most, ThreadSnapshot& thread) {
  const uint64_t pointer = thread.registers[kStackPointer];
  thread.stack_start = pointer - std::min<uint64_t>(pointer, kRedZone);
  thread.stack.resize(most);
  iovec local{thread.stack.data(), most};
  std::vector<iovec> remote;
  for (uint64_t at = thread.stack_start; at < thread.stack_start + most; at += remote.back().iov_len) {
    const uint64_t size = std::min(kPage - at % kPage, thread.stack_start + most - at);
    remote.push_back({reinterpret_cast<void*>(at), size});
  }
  const ssize_t copied = ::process_vm_readv(pid, &local, 1, remote.data(), remote.size(), 0);
  thread.stack.resize(copied < 0 ? 0 : static_cast<size_t>(copied));
}

arrow::Status refused(pid_t pid, int error) {
  if (error == ESRCH) return arrow::Status::IOError("there is no process ", pid);
  const std::string text = read_kernel_file("/proc/sys/kernel/yama/ptrace_scope");
  const std::string scope = text.substr(0, text.find('\n'));
  return arrow::Status::IOError("process ", pid, " may not be traced: ", ::strerror(error),
                                scope.empty() || scope == "0"
                                    ? "; a container needs the capability SYS_PTRACE for this"
                                    : "; kernel.yama.ptrace_scope is " + scope + ", wanted 0, or 1 and an ancestor");
}

ChildSignalBlocked::ChildSignalBlocked() {
  const sigset_t child = child_signal();
  ::pthread_sigmask(SIG_BLOCK, &child, &before_);
}
ChildSignalBlocked::~ChildSignalBlocked() {
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace paceline::stacks
