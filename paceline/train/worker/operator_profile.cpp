#include <arrow/util/compression.h>
#include <ATen/record_function.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "paceline/core/json.h"
#include "paceline/core/posix/forks.h"
#include "paceline/core/posix/kernel_file.h"
#include "paceline/core/posix/sealed_memory.h"
#include "paceline/train/worker/operator_profile_internal.h"

namespace paceline::train {
namespace {

using c10::DebugInfoKind;
using c10::ThreadLocalDebugInfo;
using Clock = std::chrono::steady_clock;

// For the first step of a loop that has had none: it may have none.
constexpr std::chrono::seconds kFirstStepPatience{5};

enum class Wanted { timeline, allocations };

struct Operator {
  std::string name;
  Clock::time_point begin, end;
};

class ThreadRecord;
// What this thread does; null outside of operators, and where nobody watches.
thread_local std::shared_ptr<ThreadRecord> of_thread;

// The operators of one thread, from the outermost's beginning to its end. LibTorch's allocators report to what a thread
// has in the place of its profiler's state, which LibTorch also hands to other threads: those are not meant.
class ThreadRecord final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device) override {
    if (bytes > 0 && of_thread.get() == this) bytes_by_stack[names()] += bytes;
  }
  bool memoryProfilingEnabled() const override { return true; }

  std::vector<Operator> running;
  std::vector<Operator> ended;
  std::map<std::vector<std::string>, int64_t> bytes_by_stack;

 private:
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const Operator& one : running) all.push_back(one.name);
    return all;
  }
};

struct StepBegin {
  int64_t step = 0;
  Clock::time_point time;
};

// What is watched. Operators that are running when it ends are left out.
struct Watch {
  explicit Watch(Wanted what, int64_t whole_steps = 0, std::function<int64_t()> step_now = nullptr)
      : wanted(what),
        steps(whole_steps),
        step(std::move(step_now)),
        last_step(step ? step() : 0),
        may_have_no_steps(last_step == 0) {}

  // Whether an operator that begins now is to be noted.
  bool notice_step() {
    if (!step) return true;
    const int64_t now = step();
    if (now > last_step) {
      const std::lock_guard lock(mutex);
      if (now > last_step && !is_over) {
        last_step = now;
        begun.push_back({now, Clock::now()});
        if (steps > 0 && begun.size() == 1) operators.clear(), count = dropped = 0;  // of no whole step
        is_over = steps > 0 && steps_ended() >= steps;
        changed.notify_all();
      }
    }
    if (steps == 0) return true;
    const std::lock_guard lock(mutex);
    return (!begun.empty() || may_have_no_steps) && !is_over;
  }
  // With the lock.
  int64_t steps_ended() const { return begun.empty() ? 0 : std::ssize(begun) - 1; }

  const Wanted wanted;
  const int64_t steps;  // 0: for a time
  const std::function<int64_t()> step;
  const HomeProcess home;
  std::atomic<int64_t> last_step;
  const bool may_have_no_steps;  // the loop has had none so far: its operators are kept until one begins
  std::mutex mutex;
  std::condition_variable changed;
  bool is_over = false;
  std::vector<StepBegin> begun;  // since it is watched
  std::map<pid_t, std::vector<Operator>> operators;
  size_t count = 0, dropped = 0;
  std::map<std::pair<pid_t, std::vector<std::string>>, int64_t> bytes;
};

// Never destroyed: callbacks may run a little longer than they are installed. A fork begins with none: a shared pointer
// that may be exchanged has a lock in it.
std::atomic<std::shared_ptr<Watch>>& current_watch() {
  static const auto* const watch = new PerProcess<std::atomic<std::shared_ptr<Watch>>>;
  return **watch;
}
thread_local std::shared_ptr<Watch> watch_of_thread;

struct Inside final : at::ObserverContext {};

std::unique_ptr<at::ObserverContext> enter(const at::RecordFunction& function) {
  if (!of_thread) {
    auto watch = current_watch().load();
    if (!watch || !watch->notice_step()) return nullptr;
    if (watch->wanted == Wanted::allocations) {
      // The program's own profiler comes first.
      if (ThreadLocalDebugInfo::get(DebugInfoKind::PROFILER_STATE) != nullptr) return nullptr;
    }
    watch_of_thread = std::move(watch);
    of_thread = std::make_shared<ThreadRecord>();
    if (watch_of_thread->wanted == Wanted::allocations) {
      ThreadLocalDebugInfo::_push(DebugInfoKind::PROFILER_STATE, of_thread);
    }
  }
  of_thread->running.push_back({.name = function.name(), .begin = Clock::now(), .end = {}});
  return std::make_unique<Inside>();
}

void leave(const at::RecordFunction&, at::ObserverContext* context) {
  if (context == nullptr || !of_thread) return;
  ThreadRecord& record = *of_thread;
  if (watch_of_thread->wanted == Wanted::timeline) {
    record.ended.push_back(std::move(record.running.back()));
    record.ended.back().end = Clock::now();
  }
  record.running.pop_back();
  if (!record.running.empty()) return;
  const auto watch = std::exchange(watch_of_thread, nullptr);
  if (watch->wanted == Wanted::allocations) ThreadLocalDebugInfo::_pop(DebugInfoKind::PROFILER_STATE);
  const auto taken = std::exchange(of_thread, nullptr);
  if (!watch->home.is_here()) return;
  const std::lock_guard lock(watch->mutex);
  if (watch->is_over) return;
  for (const auto& [stack, bytes] : taken->bytes_by_stack) watch->bytes[{::gettid(), stack}] += bytes;
  if (watch->count + taken->ended.size() > kMostOperators) {
    watch->dropped += taken->ended.size();
    return;
  }
  watch->count += taken->ended.size();
  std::vector<Operator>& all = watch->operators[::gettid()];
  std::ranges::move(taken->ended, std::back_inserter(all));
}

// Fewer seconds where a loop has no steps.
void watch_for(double seconds, const std::shared_ptr<Watch>& watch) {
  current_watch().store(watch);
  const at::CallbackHandle handle = at::addGlobalCallback(
      at::RecordFunctionCallback(enter, leave).scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
  {
    std::unique_lock lock(watch->mutex);
    const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    const auto first = watch->steps > 0 && watch->may_have_no_steps ? Clock::now() + kFirstStepPatience : end;
    watch->changed.wait_until(lock, std::min(first, end), [&] { return watch->is_over || !watch->begun.empty(); });
    if (watch->steps == 0 || !watch->begun.empty()) {
      watch->changed.wait_until(lock, end, [&] { return watch->is_over; });
    }
    watch->is_over = true;
  }
  at::removeCallback(handle);
  current_watch().store(nullptr);
}

std::string name_of_thread(pid_t tid) {
  std::string name = read_kernel_file("/proc/self/task/" + std::to_string(tid) + "/comm");
  if (name.ends_with('\n')) name.pop_back();
  return name;
}

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

// Where the steps stand among the threads.
constexpr int kThreadOfSteps = std::numeric_limits<int>::max();

// https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU: complete events, microseconds.
std::string in_chromes_format(const Watch& watch) {
  const std::string process = R"(,"pid":)" + std::to_string(::getpid()) + R"(,"tid":)";
  std::string text = R"({"displayTimeUnit":"ms","traceEvents":[)";
  const auto add_thread = [&](pid_t tid, const std::string& name) {
    if (!text.ends_with('[')) text += ",\n";
    text += R"({"ph":"M","name":"thread_name")" + process + std::to_string(tid) + R"(,"args":{"name":)" +
            encode_json(name) + "}}";
  };
  const auto add = [&](pid_t tid, const char* category, const Operator& one) {
    const auto microseconds = [](Clock::duration time) {
      char number[64];
      std::snprintf(number, sizeof number, "%.3f", std::chrono::duration<double, std::micro>(time).count());
      return std::string(number);
    };
    text += std::string(",\n") + R"({"ph":"X","cat":")" + category + R"(","name":)" + encode_json(one.name) + process +
            std::to_string(tid) + R"(,"ts":)" + microseconds(one.begin.time_since_epoch()) + R"(,"dur":)" +
            microseconds(one.end - one.begin) + "}";
  };
  if (watch.steps_ended() > 0) add_thread(kThreadOfSteps, "steps");
  for (size_t next = 1; next < watch.begun.size(); ++next) {
    const StepBegin& begin = watch.begun[next - 1];
    add(kThreadOfSteps, "step",
        {.name = "step " + std::to_string(begin.step), .begin = begin.time, .end = watch.begun[next].time});
  }
  for (const auto& [tid, operators] : watch.operators) {
    add_thread(tid, name_of_thread(tid));
    for (const Operator& one : operators) add(tid, "operator", one);
  }
  return text + "]}\n";
}

arrow::Result<std::string> compressed(const std::string& text) {
  ARROW_ASSIGN_OR_RAISE(const auto codec, arrow::util::Codec::Create(arrow::Compression::GZIP));
  const auto* const bytes = reinterpret_cast<const uint8_t*>(text.data());
  std::string result(static_cast<size_t>(codec->MaxCompressedLen(std::ssize(text), bytes)), '\0');
  ARROW_ASSIGN_OR_RAISE(const int64_t size, codec->Compress(std::ssize(text), bytes, std::ssize(result),
                                                            reinterpret_cast<uint8_t*>(result.data())));
  result.resize(static_cast<size_t>(size));
  return result;
}

}  // namespace

arrow::Result<OwnProfile> take_timeline(double seconds, int64_t steps, std::function<int64_t()> step) {
  const auto watch = std::make_shared<Watch>(Wanted::timeline, steps, std::move(step));
  watch_for(seconds, watch);
  OwnProfile taken{.profile = {.pid = ::getpid(),
                               .seconds = seconds,
                               .dropped = static_cast<int64_t>(watch->dropped),
                               .ways = {"LibTorch"}},
                   .timeline = ""};
  if (watch->dropped > 0) {
    taken.profile.problems.push_back(std::to_string(watch->dropped) + " operators found no room: ask for fewer " +
                                     (steps > 0 ? "steps" : "seconds"));
  }
  if (steps > 0 && watch->begun.empty() && watch->may_have_no_steps) {
    taken.profile.seconds = std::min(seconds, static_cast<double>(kFirstStepPatience.count()));
  }
  if (const int64_t ended = watch->steps_ended(); steps > 0 && ended < steps) {
    char patience[32];
    std::snprintf(patience, sizeof patience, "%g s", taken.profile.seconds);
    taken.profile.problems.push_back(
        watch->begun.empty()
            ? std::string("no step began within ") + patience +
                  ": a step is a batch of a prepared data loader or of a dataset, else one of an optimizer" +
                  (watch->may_have_no_steps ? "; these are the operators of that time" : "")
            : std::to_string(ended) + " of " + std::to_string(steps) + " steps ended within " + patience);
  }
  if (steps > 0 && watch->steps_ended() > 0) {
    taken.profile.seconds = seconds_between(watch->begun.front().time, watch->begun.back().time);
  }
  ARROW_ASSIGN_OR_RAISE(taken.timeline, compressed(in_chromes_format(*watch)));
  return taken;
}

OwnProfile profile_allocations(double seconds) {
  const auto watch = std::make_shared<Watch>(Wanted::allocations);
  watch_for(seconds, watch);
  OwnProfile taken{.profile = {.pid = ::getpid(), .seconds = seconds, .unit = stacks::kBytes, .ways = {"LibTorch"}},
                   .timeline = ""};
  if (watch->bytes.empty()) {
    taken.profile.problems.emplace_back(
        "no operator has allocated memory that the program's own profiler did not watch");
  }
  stacks::ProfileBuilder builder(taken.profile);
  for (const auto& [place, bytes] : watch->bytes) {
    const auto& [tid, operators] = place;
    stacks::StackFrames frames;
    for (const std::string& name : operators) frames.push_back({.function = name});
    builder.add({.tid = tid, .name = name_of_thread(tid), .language = stacks::kOperators}, frames, bytes);
  }
  return taken;
}

arrow::Result<Descriptor> memory_with(const OwnProfile& taken) {
  return SealedMemory::create("paceline_profile", {stacks::encode_lines({taken.profile}), taken.timeline});
}

}  // namespace paceline::train
