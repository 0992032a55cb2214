#include "paceline/stacks/wait_watch.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <thread>

#include "paceline/core/posix/descriptor.h"
#include "paceline/core/posix/kernel_file.h"
#include "paceline/stacks/held_thread_internal.h"
#include "paceline/stacks/sampled_profile.h"
#include "paceline/stacks/sampler.h"

namespace paceline::stacks {
namespace {

using Steady = std::chrono::steady_clock;

constexpr int64_t kLooksBetweenScans = 5;
// A thread that waits stops at once, unless the kernel does not let it.
constexpr std::chrono::milliseconds kStopPatience{20};

// A small file of /proc, without its last end of a line; "" of one that is gone. Read often, so without a stream.
std::string read_small(const std::string& path) {
  char text[512];
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const ssize_t size = file ? ::read(file.get(), text, sizeof text) : 0;
  if (size <= 0) return "";
  return {text, static_cast<size_t>(text[size - 1] == '\n' ? size - 1 : size)};
}

// Of words that a blank separates, the `number`th; "" when there are fewer.
std::string_view word(std::string_view text, int number) {
  for (; number > 0; --number) {
    const size_t blank = text.find(' ');
    if (blank == std::string_view::npos) return "";
    text.remove_prefix(blank + 1);
  }
  return text.substr(0, text.find(' '));
}

// Whether that is the call which the kernel has told of: its last words are the stack pointer and the program counter.
bool is_in(const std::string& call, const Registers& registers) {
  const size_t last = call.rfind(' ');
  const size_t before = last == std::string::npos || last == 0 ? std::string::npos : call.rfind(' ', last - 1);
  if (before == std::string::npos) return false;
  return std::strtoull(call.c_str() + before + 1, nullptr, 16) == registers[kStackPointer] &&
         std::strtoull(call.c_str() + last + 1, nullptr, 16) == registers[kProgramCounter];
}

// The kernel's letter: S sleeps, D sleeps uninterruptibly, T is stopped.
std::string state_letter(const std::string& folder) {
  const std::string stat = read_small(folder + "stat");
  const size_t name_end = stat.rfind(") ");
  return name_end == std::string::npos ? "" : stat.substr(name_end + 2, 1);
}

}  // namespace

WaitWatch::WaitWatch(pid_t pid, size_t most_stacks) : pid_(pid), most_stacks_(most_stacks) {}
WaitWatch::WaitWatch(WaitWatch&&) noexcept = default;
WaitWatch::~WaitWatch() {
  while (!late_.empty()) release_late(Steady::now() + kStopPatience);
}

arrow::Result<WaitWatch> WaitWatch::begin(pid_t pid, size_t most_stacks) {
  WaitWatch watch(pid, most_stacks);
  watch.find_threads();
  if (watch.living_.empty()) return refused(pid, ESRCH);
  const std::string call = "/proc/" + std::to_string(pid) + "/syscall";
  if (read_small(call).empty()) return refused(pid, ::access(call.c_str(), F_OK) == 0 ? EPERM : ESRCH);
  return watch;
}

void WaitWatch::find_threads() {
  living_ = threads_of(pid_);
  for (const pid_t tid : living_) {
    const auto [found, is_new] = threads_.try_emplace(tid);
    if (!is_new) continue;
    Thread& thread = found->second;
    thread.folder = "/proc/" + std::to_string(pid_) + "/task/" + std::to_string(tid) + "/";
    thread.name = read_small(thread.folder + "comm");
    thread.before = thread.last = time_in(read_small(thread.folder + "schedstat"));
    thread.first_seen = thread.last_seen = Steady::now();
  }
  // With the libraries that were loaded meanwhile.
  if (std::string maps = read_kernel_file("/proc/" + std::to_string(pid_) + "/maps"); !maps.empty()) {
    maps_ = std::move(maps);
  }
}

void WaitWatch::look(int64_t intervals) {
  const ChildSignalBlocked blocked;
  release_late(Steady::now());
  if (++looks_ % kLooksBetweenScans == 0) find_threads();
  looked_ = Steady::now();
  for (const pid_t tid : living_) {
    const bool is_late = std::ranges::find(late_, tid, &HeldThread::tid) != late_.end();
    if (is_late || look_at(tid, threads_[tid], intervals)) ended_ = looked_;
  }
}

WaitWatch::ProcessorTime WaitWatch::time_in(const std::string& schedule) {
  ProcessorTime time;
  const std::string_view run = word(schedule, 0), ready = word(schedule, 1);
  std::from_chars(run.data(), run.data() + run.size(), time.run_ns);
  std::from_chars(ready.data(), ready.data() + ready.size(), time.ready_ns);
  return time;
}

// What the kernel leaves of the time that it was seen.
double WaitWatch::seconds_waited(const Thread& thread) {
  const std::chrono::duration<double> seen = thread.last_seen - thread.first_seen;
  const int64_t run_ns = thread.last.run_ns - thread.before.run_ns;
  const int64_t ready_ns = thread.last.ready_ns - thread.before.ready_ns;
  return std::max(seen.count() - static_cast<double>(run_ns + ready_ns) * 1e-9, 0.0);
}

// False where it is gone.
bool WaitWatch::look_at(pid_t tid, Thread& thread, int64_t intervals) {
  std::string call = read_small(thread.folder + "syscall");
  const std::string schedule = read_small(thread.folder + "schedstat");
  if (schedule.empty()) {
    thread.call.clear();
    return false;
  }
  thread.last = time_in(schedule);
  thread.last_seen = Steady::now();
  if (call.empty() || call == "running") {
    thread.call.clear();
    return true;
  }
  std::string turns(word(schedule, 2));
  // Holding it has given it a turn.
  const bool is_same = call == thread.call && (turns == thread.turns || thread.was_held) && !turns.empty();
  thread.turns = std::move(turns);
  if (is_same || waits_.size() >= most_stacks_) {
    thread.was_held = false;
    thread.call = std::move(call);
    const auto known = thread.waits.find(thread.call);
    (known == thread.waits.end() ? missed_ : waits_[known->second].intervals) += intervals;
    return true;
  }
  thread.call = std::move(call);
  Wait wait{.thread = {.tid = tid}, .intervals = intervals};
  thread.was_held = take_stack(tid, thread, wait);
  if (!thread.was_held && wait.state.empty()) {
    thread.call.clear();
    missed_ += intervals;
    return true;
  }
  thread.waits[thread.call] = waits_.size();
  waits_.push_back(std::move(wait));
  return true;
}

// Whether it was held, in the call that it was seen in.
bool WaitWatch::take_stack(pid_t tid, const Thread& thread, Wait& wait) {
  const std::string letter = state_letter(thread.folder);
  if (letter == "D") {  // it would not stop
    const std::string where = read_small(thread.folder + "wchan");
    wait.state = where.empty() || where == "0" ? "[in the kernel, uninterruptibly]" : "[in the kernel: " + where + "]";
    return false;
  }
  if (letter == "T") wait.state = "[stopped by a signal]";
  HeldThread held(tid);
  if (held.seize() != 0) return false;
  const HeldThread::Stop stop = held.wait(Steady::now() + kStopPatience);
  if (stop == HeldThread::Stop::late) late_.push_back(held);
  if (stop != HeldThread::Stop::stopped) return false;
  const bool is_there = held.copy_registers(wait.thread) && is_in(thread.call, wait.thread.registers);
  if (is_there) copy_stack(pid_, kMostSampleStack, wait.thread);
  held.release();
  wait.is_cut = wait.thread.stack.size() == kMostSampleStack;
  return is_there;
}

void WaitWatch::release_late(Steady::time_point deadline) {
  std::erase_if(late_, [&](HeldThread& held) {
    const HeldThread::Stop stop = held.wait(deadline);
    if (stop == HeldThread::Stop::stopped) held.release();
    return stop != HeldThread::Stop::late;
  });
}

Profile WaitWatch::profile(Symbols& symbols) const {
  Profile profile{.pid = pid_,
                  .rate = kWaitRate,
                  .seconds = std::chrono::duration<double>(ended_ - began_).count(),
                  .dropped = missed_,
                  .ways = {"ptrace"}};
  if (looked_ - ended_ > std::chrono::milliseconds(200)) {
    profile.problems.push_back("the process has ended meanwhile; this is what was seen until then");
  }
  struct Share {
    int64_t seen = 0;  // intervals
    double told = 0, exact = 0;
  };
  std::map<pid_t, Share> shares;
  for (const Wait& wait : waits_) shares[wait.thread.tid].seen += wait.intervals;
  const auto seconds_of = [](const Thread& thread) {
    return std::chrono::duration<double>(thread.last_seen - thread.first_seen).count();
  };
  ProfileBuilder builder(profile);
  Symbols::Stacks stacks(symbols, {.pid = pid_, .maps = maps_});
  for (const Wait& wait : waits_) {
    const Thread& thread = threads_.at(wait.thread.tid);
    Share& share = shares[wait.thread.tid];
    share.exact += static_cast<double>(wait.intervals) / static_cast<double>(std::max<int64_t>(share.seen, 1)) *
                   seconds_waited(thread) * kWaitRate;
    const int64_t intervals = std::llround(share.exact - share.told);
    share.told += static_cast<double>(intervals);
    if (intervals <= 0) continue;
    StackFrames frames;
    if (!wait.thread.stack.empty()) frames = root_first(stacks.name(wait.thread), wait.is_cut);
    if (!wait.state.empty()) frames.push_back({.function = wait.state});
    builder.add({.tid = wait.thread.tid, .name = thread.name, .language = kNativeCode, .seconds = seconds_of(thread)},
                frames, intervals);
  }
  for (const auto& [tid, thread] : threads_) {
    const double ready_s = static_cast<double>(thread.last.ready_ns - thread.before.ready_ns) * 1e-9;
    const int64_t intervals = std::llround(ready_s * kWaitRate);
    if (intervals <= 0) continue;
    builder.add({.tid = tid, .name = thread.name, .language = kNativeCode, .seconds = seconds_of(thread)},
                {{.function = kWantsProcessor}}, intervals);
  }
  return profile;
}

void look_for(std::vector<WaitWatch>& watches, std::chrono::duration<double> length) {
  const auto begin = Steady::now();
  const auto all = static_cast<int64_t>(std::floor(length.count() * kWaitRate));
  for (int64_t done = 0; done < all;) {
    const std::chrono::duration<double> next(static_cast<double>(done + 1) / kWaitRate);
    std::this_thread::sleep_until(begin + std::chrono::ceil<Steady::duration>(next));
    const double past = std::chrono::duration<double>(Steady::now() - begin).count();
    const int64_t until_now = std::clamp(static_cast<int64_t>(past * kWaitRate), done + 1, all);
    for (WaitWatch& watch : watches) watch.look(until_now - done);
    done = until_now;
  }
}

}  // namespace paceline::stacks
