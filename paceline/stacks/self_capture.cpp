#include "paceline/stacks/self_capture.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <exception>
#include <utility>

#include "paceline/core/posix/shared_memory.h"
#include "paceline/stacks/mapping_internal.h"
#include "paceline/stacks/registers_internal.h"

namespace paceline::stacks {
namespace {

constexpr uint32_t kCrashVersion = 1;
constexpr size_t kMostCrashStack = size_t{512} << 10;
constexpr size_t kMostMaps = size_t{512} << 10;
constexpr size_t kHandlerStack = size_t{64} << 10;
constexpr int kFatalSignals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};

// The memory: all of it written by the process that crashes, read when it is gone.
struct CrashMemory {
  std::atomic<uint32_t> version;
  std::atomic<int32_t> signal;  // last: not 0 when the rest is there
  int32_t code;
  int32_t tid;
  uint64_t address;
  uint64_t stack_start;
  uint64_t stack_size;
  uint64_t maps_size;
  Registers registers;
  char thread[16];
  char what[1024];
  char maps[kMostMaps];
  char stack[kMostCrashStack];
};

// What the handlers need. Never changed once it is installed, but for `noted`.
CrashMemory* crash_memory = nullptr;
int crash_descriptor = -1;
pid_t crash_process = 0;
struct sigaction earlier_actions[NSIG];
std::terminate_handler earlier_terminate = nullptr;
std::atomic<bool> noted{false};

// Async-signal-safe: system calls and copies only. The kernel copies the stack, so one that is not there is no fault;
// it is called without libc, whose place a sanitizer takes to refuse what reads across variables.
void note(int signal, const siginfo_t& info, const ucontext_t& context) {
  CrashMemory& memory = *crash_memory;
  memory.code = info.si_code;
  memory.address = reinterpret_cast<uint64_t>(info.si_addr);
  memory.tid = static_cast<int32_t>(::syscall(SYS_gettid));
  ::prctl(PR_GET_NAME, memory.thread);
  memory.registers = registers_of(context);
  const int maps = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  for (ssize_t size = 1; size > 0 && memory.maps_size < kMostMaps; memory.maps_size += static_cast<uint64_t>(size)) {
    size = ::read(maps, memory.maps + memory.maps_size, kMostMaps - memory.maps_size);
    if (size < 0) break;
  }
  ::close(maps);
  memory.stack_start = memory.registers[kStackPointer];
  const long copied =
      ::syscall(SYS_pwrite64, crash_descriptor, memory.stack_start, kMostCrashStack, offsetof(CrashMemory, stack));
  memory.stack_size = copied < 0 ? 0 : static_cast<uint64_t>(copied);
  memory.signal.store(signal, std::memory_order_release);
}

void on_fatal_signal(int signal, siginfo_t* info, void* context) {
  // A fault in here ends the process by the earlier action.
  ::sigaction(signal, &earlier_actions[signal], nullptr);
  if (::getpid() == crash_process && !noted.exchange(true)) note(signal, *info, *static_cast<ucontext_t*>(context));
  // A fault comes again when the instruction is tried again; what was sent must be sent again.
  if (info->si_code <= 0 || signal == SIGABRT) {
    ::syscall(SYS_tgkill, ::getpid(), ::syscall(SYS_gettid), signal);
  }
}

[[noreturn]] void on_terminate() {
  if (::getpid() == crash_process && std::current_exception() != nullptr) {
    try {
      throw;
    } catch (const std::exception& error) {
      std::strncpy(crash_memory->what, error.what(), sizeof crash_memory->what - 1);
    } catch (...) {
      std::strncpy(crash_memory->what, "an exception of unknown type", sizeof crash_memory->what - 1);
    }
  }
  if (earlier_terminate != nullptr) earlier_terminate();
  std::abort();
}

std::string text_in(const char* text, size_t size) {
  return {text, ::strnlen(text, size)};
}

}  // namespace

arrow::Result<Descriptor> note_crashes() {
  ARROW_ASSIGN_OR_RAISE(SharedMemory created, SharedMemory::create("paceline-crash", sizeof(CrashMemory)));
  // Never destroyed: a process may crash at its very end.
  static const auto* const memory = new SharedMemory(std::move(created));
  crash_memory = reinterpret_cast<CrashMemory*>(memory->bytes().data());
  crash_memory->version = kCrashVersion;
  crash_descriptor = memory->descriptor().get();
  crash_process = ::getpid();
  void* stack = ::mmap(nullptr, kHandlerStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (stack != MAP_FAILED) {
    const stack_t handler_stack{.ss_sp = stack, .ss_flags = 0, .ss_size = kHandlerStack};
    ::sigaltstack(&handler_stack, nullptr);
  }
  struct sigaction action{};
  action.sa_sigaction = on_fatal_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (const int signal : kFatalSignals) ::sigaction(signal, &action, &earlier_actions[signal]);
  earlier_terminate = std::set_terminate(on_terminate);
  return memory->descriptor().duplicate();
}

arrow::Result<std::optional<Crash>> read_crash(Descriptor descriptor) {
  ARROW_ASSIGN_OR_RAISE(const SharedMemory shared, SharedMemory::open(std::move(descriptor), sizeof(CrashMemory)));
  const auto& memory = *reinterpret_cast<const CrashMemory*>(shared.bytes().data());
  if (memory.version != kCrashVersion) {
    return arrow::Status::Invalid("crash memory of another version: wanted ", kCrashVersion, ", got ", memory.version);
  }
  if (memory.signal == 0) return std::nullopt;
  Crash crash{.signal = memory.signal, .code = memory.code, .address = memory.address};
  crash.what = text_in(memory.what, sizeof memory.what);
  crash.snapshot.pid = memory.tid;
  crash.snapshot.maps = std::string(memory.maps, std::min(memory.maps_size, kMostMaps));
  const Mappings mappings(crash.snapshot.maps);
  if (const Mapping* const place = mappings.find(crash.address)) crash.place = place->path;
  ThreadSnapshot thread{.tid = memory.tid, .name = text_in(memory.thread, sizeof memory.thread)};
  thread.registers = memory.registers;
  thread.stack_start = memory.stack_start;
  const auto* stack = reinterpret_cast<const std::byte*>(memory.stack);
  thread.stack.assign(stack, stack + std::min(memory.stack_size, kMostCrashStack));
  crash.snapshot.threads.push_back(std::move(thread));
  return crash;
}

}  // namespace paceline::stacks
