#include <ATen/record_function.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "paceline/core/posix/kernel_file.h"
#include "paceline/train/worker/operator_profile_internal.h"

namespace paceline::train {
namespace {

using c10::DebugInfoKind;
using c10::ThreadLocalDebugInfo;

// What the operators of one thread allocate, from the outermost's beginning to its end. LibTorch's allocators report to
// what a thread has in this place, which is that of its profiler's state.
class ThreadAllocations final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device) override {
    if (bytes > 0) bytes_by_stack_[stack_] += bytes;
  }
  bool memoryProfilingEnabled() const override { return true; }

  void enter(const char* name) { stack_.emplace_back(name); }
  // Whether it was the outermost.
  bool leave() {
    stack_.pop_back();
    return stack_.empty();
  }
  std::map<std::vector<std::string>, int64_t> take() { return std::exchange(bytes_by_stack_, {}); }

 private:
  std::vector<std::string> stack_;
  std::map<std::vector<std::string>, int64_t> bytes_by_stack_;
};

// Whose callbacks are installed; they may run a little longer than that, on threads in the middle of an operator.
struct Watch {
  std::mutex mutex;
  std::map<std::pair<pid_t, std::vector<std::string>>, int64_t> bytes;
  bool is_over = false;
};

std::mutex watch_mutex;
std::shared_ptr<Watch> current_watch;  // null: nobody watches

thread_local std::shared_ptr<ThreadAllocations> of_thread;  // null outside of operators
thread_local std::shared_ptr<Watch> watch_of_thread;

// An operator on its thread.
struct Inside final : at::ObserverContext {};

std::unique_ptr<at::ObserverContext> enter(const at::RecordFunction& function) {
  if (!of_thread) {
    // The program's own profiler comes first.
    if (ThreadLocalDebugInfo::get(DebugInfoKind::PROFILER_STATE) != nullptr) return nullptr;
    const std::lock_guard lock(watch_mutex);
    if (!current_watch) return nullptr;
    watch_of_thread = current_watch;
    of_thread = std::make_shared<ThreadAllocations>();
    ThreadLocalDebugInfo::_push(DebugInfoKind::PROFILER_STATE, of_thread);
  }
  of_thread->enter(function.name());
  return std::make_unique<Inside>();
}

void leave(const at::RecordFunction&, at::ObserverContext* context) {
  if (context == nullptr || !of_thread || !of_thread->leave()) return;
  ThreadLocalDebugInfo::_pop(DebugInfoKind::PROFILER_STATE);
  const auto taken = std::exchange(of_thread, nullptr);
  const auto watch = std::exchange(watch_of_thread, nullptr);
  const std::lock_guard lock(watch->mutex);
  if (watch->is_over) return;
  for (auto& [stack, bytes] : taken->take()) watch->bytes[{::gettid(), stack}] += bytes;
}

std::string name_of_thread(pid_t tid) {
  std::string name = read_kernel_file("/proc/self/task/" + std::to_string(tid) + "/comm");
  if (name.ends_with('\n')) name.pop_back();
  return name;
}

}  // namespace

OwnProfile profile_allocations(double seconds) {
  const auto watch = std::make_shared<Watch>();
  {
    const std::lock_guard lock(watch_mutex);
    current_watch = watch;
  }
  const at::CallbackHandle handle = at::addGlobalCallback(
      at::RecordFunctionCallback(enter, leave).scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  at::removeCallback(handle);
  {
    const std::lock_guard lock(watch_mutex);
    current_watch = nullptr;
  }
  OwnProfile taken{.profile = {.pid = ::getpid(), .seconds = seconds, .unit = stacks::kBytes, .ways = {"LibTorch"}},
                   .timeline = ""};
  const std::lock_guard lock(watch->mutex);
  watch->is_over = true;
  stacks::ProfileBuilder builder(taken.profile);
  for (const auto& [place, bytes] : watch->bytes) {
    const auto& [tid, operators] = place;
    stacks::StackFrames frames;
    for (const std::string& name : operators) frames.push_back({.function = name});
    builder.add({.tid = tid, .name = name_of_thread(tid), .language = stacks::kOperators}, frames, bytes);
  }
  return taken;
}

}  // namespace paceline::train
