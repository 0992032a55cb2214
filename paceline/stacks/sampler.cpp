#include "paceline/stacks/sampler.h"

#include <dlfcn.h>
#include <linux/futex.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "paceline/core/posix/kernel_file.h"
#include "paceline/core/posix/thread.h"
#include "paceline/stacks/registers_internal.h"
#include "paceline/stacks/sample_memory_internal.h"

namespace paceline::stacks {
namespace {

using Steady = std::chrono::steady_clock;

constexpr auto kScanInterval = std::chrono::milliseconds(100);
constexpr uint32_t kMostIntervals = 1024;  // that a sample stands for

// What the signal handler knows: the memory while somebody samples.
struct Target {
  SampleMemory* memory = nullptr;
  int descriptor = -1;
  size_t stacks_start = 0;
  pid_t process = 0;
  int number = 0;  // of the sampling: late signals of an earlier one have another
};
std::atomic<Target*> target{nullptr};
std::atomic<int> handlers_running{0};

// Async-signal-safe: system calls and copies only. The kernel copies the stack, so its end is no fault; it is called
// without libc, whose place a sanitizer takes to refuse what reads across variables.
void take_sample(const Target& into, const siginfo_t& info, const ucontext_t& context) {
  SampleMemory& memory = *into.memory;
  const uint32_t count = memory.count * (1 + static_cast<uint32_t>(std::clamp(info.si_overrun, 0, 1000)));
  const uint64_t number = memory.next.fetch_add(1);
  if (number >= memory.most_samples) {
    memory.dropped.fetch_add(count);
    return;
  }
  SampleHead& head = memory.heads()[number];
  head.tid = static_cast<int32_t>(::syscall(SYS_gettid));
  head.count = count;
  head.registers = registers_of(context);
  head.stack_start = head.registers[kStackPointer];
  const long copied = ::syscall(SYS_pwrite64, into.descriptor, head.stack_start, kMostSampleStack,
                                into.stacks_start + number * kMostSampleStack);
  head.stack_size = copied < 0 ? 0 : static_cast<uint32_t>(copied);
  head.is_whole.store(1, std::memory_order_release);
}

void on_profile_signal(int, siginfo_t* info, void* context) {
  const int before = errno;
  handlers_running.fetch_add(1);
  const Target* const into = target.load();
  // A forked child has a copy of this, and may be sent the signal by anybody.
  if (into != nullptr && info->si_code == SI_TIMER && info->si_value.sival_int == into->number &&
      ::getpid() == into->process) {
    take_sample(*into, *info, *static_cast<const ucontext_t*>(context));
  }
  handlers_running.fetch_sub(1);
  errno = before;
}

bool is_ours(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == on_profile_signal;
}

// "" when nobody else has the signal.
std::string owner_of_signal() {
  struct sigaction now{};
  ::sigaction(SIGPROF, nullptr, &now);
  const bool nobodys = (now.sa_flags & SA_SIGINFO) == 0 && (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN);
  if (nobodys || is_ours(now)) return "";
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void*>(now.sa_handler), &info) == 0 || info.dli_fname == nullptr) return "the program";
  return std::filesystem::path(info.dli_fname).filename();
}

timespec to_timespec(double seconds) {
  const auto whole = static_cast<time_t>(seconds);
  return {whole, static_cast<long>((seconds - static_cast<double>(whole)) * 1e9)};
}

// The clock of the processor time of one thread of this process, as the kernel numbers them; glibc has no call for a
// thread that is known by its id only.
clockid_t clock_of(pid_t tid) {
  constexpr clockid_t kOfThread = 4, kProcessorTime = 2;
  return static_cast<clockid_t>((~static_cast<unsigned>(tid)) << 3) | kOfThread | kProcessorTime;
}

double processor_seconds(pid_t tid) {
  timespec used{};
  if (::clock_gettime(clock_of(tid), &used) != 0) return 0;
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

std::vector<pid_t> own_threads() {
  std::vector<pid_t> threads;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc/self/task", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    pid_t tid = 0;
    std::from_chars(name.data(), name.data() + name.size(), tid);
    threads.push_back(tid);
  }
  return threads;
}

bool blocks_profile_signal(pid_t tid) {
  const std::string status = read_kernel_file("/proc/self/task/" + std::to_string(tid) + "/status");
  const size_t found = status.find("SigBlk:\t");
  uint64_t mask = 0;
  if (found != std::string::npos) std::from_chars(status.data() + found + 8, status.data() + found + 24, mask, 16);
  return (mask >> (SIGPROF - 1) & 1) != 0;
}

void wake_all(std::atomic<uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

class RunningSampler final : public Sampler {
 public:
  RunningSampler(SharedMemory shared, SamplerOptions how)
      : options_(how),
        shared_memory_(std::move(shared)),
        memory_(*reinterpret_cast<SampleMemory*>(shared_memory_.bytes().data())) {
    static std::atomic<int> last_number{0};
    handler_target_ = {.memory = &memory_,
                       .descriptor = shared_memory_.descriptor().get(),
                       .stacks_start = SampleMemory::stacks_start(how.most_samples),
                       .process = ::getpid(),
                       .number = ++last_number};
    memory_.version = kSampleVersion;
    memory_.pid = ::getpid();
    memory_.count = 1;
    memory_.most_samples = how.most_samples;
    memory_.rate = how.rate;
    memory_.seconds = how.length.count();
  }

  /// The handler is installed.
  void begin() {
    target = &handler_target_;
    scan();
    thread_ = start_thread([this] { watch(); });
  }

  ~RunningSampler() override {
    if (memory_.pid == ::getpid()) {
      stop();
    } else {
      thread_.detach();  // a forked child's copy: the thread is its parent's
      Target* own = &handler_target_;
      if (target.compare_exchange_strong(own, nullptr)) handlers_running = 0;
    }
  }

  const Descriptor& memory() const override { return shared_memory_.descriptor(); }
  bool has_ended() const override { return memory_.phase == static_cast<uint32_t>(SamplePhase::ended); }
  void stop() override {
    is_stopping_ = 1;
    ::syscall(SYS_futex, &is_stopping_, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0);
    if (thread_.joinable()) thread_.join();
  }

 private:
  struct Timed {
    size_t place = 0;  // in the memory's table
    double cpu_s = 0;  // when it was first seen
    std::optional<timer_t> timer;
  };

  void note_problem(const std::string& text) {
    if (memory_.problem[0] == '\0') std::strncpy(memory_.problem, text.c_str(), sizeof memory_.problem - 1);
  }

  itimerspec interval() const {
    const timespec once = to_timespec(memory_.count / options_.rate);
    return {once, once};
  }

  // New threads get timers, those of ended ones go.
  void scan() {
    const std::vector<pid_t> threads = own_threads();
    const std::set<pid_t> living(threads.begin(), threads.end());
    std::erase_if(timed_, [&](const auto& one) {
      if (living.contains(one.first)) return false;
      if (one.second.timer) ::timer_delete(*one.second.timer);
      return true;
    });
    for (const pid_t tid : threads) {
      if (!timed_.contains(tid) && tid != ::gettid()) add(tid);
    }
  }

  void add(pid_t tid) {
    const uint32_t place = memory_.threads;
    if (place == kMostSampledThreads) return note_problem("threads beyond the first 1024 were not sampled");
    NotedThread& noted = memory_.thread[place];
    const std::string name = read_kernel_file("/proc/self/task/" + std::to_string(tid) + "/comm");
    std::memcpy(noted.name, name.data(), std::min(name.find('\n'), sizeof noted.name - 1));
    noted.tid = tid;
    noted.blocks_signal = blocks_profile_signal(tid) ? 1 : 0;
    Timed& one = timed_[tid] = {.place = place, .cpu_s = processor_seconds(tid)};
    memory_.threads.store(place + 1, std::memory_order_release);
    if (noted.blocks_signal != 0) return;
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGPROF;
    event.sigev_value.sival_int = handler_target_.number;
    event._sigev_un._tid = tid;
    timer_t timer{};
    if (::timer_create(clock_of(tid), &event, &timer) != 0) {
      if (errno == EAGAIN) note_problem("the system has no timers for all threads (ulimit -i)");
      return;  // else it has ended
    }
    one.timer = timer;
    const itimerspec spec = interval();
    ::timer_settime(timer, 0, &spec, nullptr);
  }

  // Twice as rarely from now on, if the memory would be full before the end.
  void save_memory(Steady::time_point now) {
    const auto past = std::chrono::duration<double>(now - since_).count();
    const auto left = std::chrono::duration<double>(end_ - now).count();
    const uint64_t used = memory_.next;
    const double pace = static_cast<double>(used - used_since_) / std::max(past, 1e-3);
    if (used >= options_.most_samples || memory_.count >= kMostIntervals) return;
    if (static_cast<double>(used) + pace * left <= static_cast<double>(options_.most_samples)) return;
    const double added = memory_.count / options_.rate;
    memory_.count = memory_.count * 2;
    for (const auto& [tid, one] : timed_) {
      if (one.timer) lengthen(*one.timer, added);
    }
    since_ = now;
    used_since_ = used;
  }

  // The next sample is an interval of the new length behind the last one.
  void lengthen(timer_t timer, double added) {
    itimerspec spec{};
    if (::timer_gettime(timer, &spec) != 0) return;
    const double left = static_cast<double>(spec.it_value.tv_sec) + static_cast<double>(spec.it_value.tv_nsec) * 1e-9;
    spec = {.it_interval = interval().it_interval, .it_value = to_timespec(left + added)};
    ::timer_settime(timer, 0, &spec, nullptr);
  }

  void watch() {
    while (!is_stopping_) {
      const auto now = Steady::now();
      if (now >= end_) break;
      const auto pause = std::min<Steady::duration>(kScanInterval, end_ - now);
      const timespec limit = to_timespec(std::chrono::duration<double>(pause).count());
      ::syscall(SYS_futex, &is_stopping_, FUTEX_WAIT_PRIVATE, 0, &limit, nullptr, 0);
      if (const std::string owner = owner_of_signal(); !owner.empty()) {
        note_problem(owner + " has taken the signal SIGPROF meanwhile; the samples end there");
        break;
      }
      scan();
      save_memory(Steady::now());
    }
    finish();
  }

  void finish() {
    for (const auto& [tid, one] : timed_) {
      if (one.timer) ::timer_delete(*one.timer);
      memory_.thread[one.place].cpu_ns = static_cast<int64_t>((processor_seconds(tid) - one.cpu_s) * 1e9);
    }
    target = nullptr;
    // A handler that has begun before may still write.
    for (int turn = 0; handlers_running != 0 && turn < 5000; ++turn) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    memory_.seconds = std::chrono::duration<double>(Steady::now() - began_).count();
    memory_.phase = static_cast<uint32_t>(SamplePhase::ended);
    wake_all(memory_.phase);
  }

  const SamplerOptions options_;
  SharedMemory shared_memory_;
  SampleMemory& memory_;
  Target handler_target_;
  std::map<pid_t, Timed> timed_;
  const Steady::time_point began_ = Steady::now();
  const Steady::time_point end_ = began_ + std::chrono::duration_cast<Steady::duration>(options_.length);
  Steady::time_point since_ = began_;  // this count
  uint64_t used_since_ = 0;
  std::atomic<uint32_t> is_stopping_{0};  // a futex
  std::thread thread_;
};

}  // namespace

arrow::Result<std::unique_ptr<Sampler>> Sampler::start(SamplerOptions options) {
  if (options.rate <= 0 || options.rate > 1000 || options.length.count() <= 0 || options.most_samples == 0) {
    return arrow::Status::Invalid("sampling: wanted a rate of at most 1000 and some time, got ", options.rate, " and ",
                                  options.length.count(), " s");
  }
  const Target* const present = target;
  if (present != nullptr && present->process == ::getpid()) {
    return arrow::Status::Invalid("the process is being profiled already; try again when that is over");
  }
  if (const std::string owner = owner_of_signal(); !owner.empty()) {
    return arrow::Status::Invalid(owner, " has a handler of the signal SIGPROF, which sampling needs: end that ",
                                  "profiler or timer, or profile without it");
  }
  const size_t size = SampleMemory::size(options.most_samples);
  rlimit file_size{};
  if (::getrlimit(RLIMIT_FSIZE, &file_size) == 0 && file_size.rlim_cur < size) {
    return arrow::Status::IOError("sampling needs memory of ", size, " bytes, but the process may write no file of ",
                                  "that size (ulimit -f)");
  }
  ARROW_ASSIGN_OR_RAISE(SharedMemory memory, SharedMemory::create("paceline-samples", size));
  if (present != nullptr) handlers_running = 0;  // a forked child's copy of those of its parent
  auto sampler = std::make_unique<RunningSampler>(std::move(memory), options);
  struct sigaction action{};
  action.sa_sigaction = on_profile_signal;
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  if (::sigaction(SIGPROF, &action, nullptr) != 0) return errno_status("taking the signal SIGPROF");
  sampler->begin();
  return sampler;
}

}  // namespace paceline::stacks
