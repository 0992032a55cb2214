#include "paceline/policy/exit_cause.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <utility>

#include "paceline/core/bytes_text.h"

namespace paceline::policy {
namespace {

// Below the lowest page that programs can have, and above what offsets into an object reach.
constexpr uint64_t kNearNull = 65'536;
// How far below the stack pointer one call may reach.
constexpr uint64_t kStackReach = 1 << 20;

constexpr const char* kMissingLibrary = "error while loading shared libraries: ";

std::string hexadecimal(uint64_t number) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%lx", number);
  return text;
}

bool is_in_shared_memory(const std::string& place) {
  return place.starts_with("/dev/shm/") || place.starts_with("/memfd:") || place.starts_with("/SYSV");
}

bool is_file(const std::string& place) {
  return place.starts_with("/") && !is_in_shared_memory(place);
}

ExitCause killed(const ProcessEnd& end) {
  ExitCause cause{.what = describe(end.status)};
  const MemoryFacts& memory = end.memory;
  if (end.status.ended_by_paceline) return cause;
  if (end.cut_off) {
    return {.what = "ended itself, because its channel to Paceline was gone",
            .advice =
                "the train loop, or a library in it, most likely closed file descriptors that it had not opened "
                "(closefrom(), os.closerange(), code that makes a daemon): leave the others open"};
  }
  if (end.status.out_of_memory) {
    if (!memory.group.empty()) cause.detail += "; its cgroup is " + memory.group;
    if (memory.limit_bytes > 0) cause.detail += ", whose limit is " + bytes_text(memory.limit_bytes);
    if (memory.peak_bytes > 0) cause.detail += "; the process had used up to " + bytes_text(memory.peak_bytes);
    cause.advice = "use smaller batches or fewer workers, or give the job more memory";
    return cause;
  }
  cause.detail += ", which Paceline did not send";
  if (memory.peak_bytes > 0) cause.detail += "; the process had used up to " + bytes_text(memory.peak_bytes);
  if (memory.host_kill) {
    cause.advice =
        "the kernel's out-of-memory killer was at work on this machine, outside this job's cgroup: use less "
        "memory, or find who else uses it";
  } else {
    cause.advice = "a person, a batch system or the machine's out-of-memory killer did; their logs (dmesg) tell";
    if (memory.available_bytes > 0) {
      cause.advice += "; " + bytes_text(memory.available_bytes) + " of the machine's memory were available afterwards";
    }
  }
  return cause;
}

ExitCause bad_access(const ProcessEnd& end) {
  const CrashFacts& crash = *end.crash;
  ExitCause cause{.what = describe(end.status), .detail = ": it used address " + hexadecimal(crash.address)};
  const bool below_stack = crash.address < crash.stack_pointer + kNearNull &&
                           crash.address + kStackReach > crash.stack_pointer && crash.place != "[stack]";
  if (crash.code <= 0) {
    cause.detail = ": a process sent the signal; it was no fault of its own";
  } else if (crash.address < kNearNull) {
    cause.detail += ", a null pointer";
  } else if (below_stack) {
    cause.detail += ", the end of its stack";
    cause.advice = "look for endless recursion, or raise the limit with ulimit -s";
  } else if (!crash.place.empty()) {
    cause.detail += " in " + crash.place + ", which may not be used so";
  } else {
    cause.detail += ", where nothing is";
  }
  return cause;
}

ExitCause bus_error(const ProcessEnd& end) {
  const std::string& place = end.crash->place;
  ExitCause cause{.what = describe(end.status)};
  if (is_in_shared_memory(place)) {
    cause.detail += ": there was no room left for " + place + ", so the shared memory is full";
    cause.advice = "make /dev/shm larger (docker run --shm-size), or use fewer loader processes";
  } else if (is_file(place)) {
    cause.detail += ": the mapped file " + place + " became shorter, or its disk could not be read";
    cause.advice = "do not change a file while it is used, and look at its disk";
  }
  return cause;
}

ExitCause aborted(const ProcessEnd& end) {
  ExitCause cause{.what = describe(end.status)};
  if (end.crash && !end.crash->what.empty()) {
    cause.detail += ": an exception that nobody caught: " + end.crash->what;
    cause.advice =
        "it left a thread, a destructor or a noexcept function; catch it there, or throw it in the train loop's "
        "own thread";
  }
  return cause;
}

ExitCause ended_by_signal(const ProcessEnd& end) {
  const int signal = end.status.signal;
  if (signal == SIGKILL) return killed(end);
  if (signal == SIGABRT) return aborted(end);
  if (end.crash && signal == SIGSEGV) return bad_access(end);
  if (end.crash && signal == SIGBUS) return bus_error(end);
  ExitCause cause{.what = describe(end.status)};
  if (signal == SIGILL) {
    cause.advice = "the program has an instruction that this processor does not know: build it for this machine";
  } else if (signal == SIGFPE) {
    cause.detail += ": most likely an integer divided by zero";
  } else if (signal == SIGXFSZ) {
    cause.detail += ": a file became larger than the limit";
    cause.advice = "raise the limit with ulimit -f";
  } else if (signal == SIGXCPU) {
    cause.detail += ": it used more processor time than the limit";
    cause.advice = "raise the limit with ulimit -t";
  } else if (signal == SIGTERM || signal == SIGINT || signal == SIGHUP) {
    cause.detail += ", which Paceline did not send";
    cause.advice = "a person or a batch system did; to stop a run, use `paceline stop`";
  }
  return cause;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

}  // namespace

ExitCause decode_exit(const ProcessEnd& end) {
  ExitCause cause;
  if (end.status.signal != 0) {
    cause = ended_by_signal(end);
  } else {
    cause.what = describe(end.status);
    const std::string text = joined(end.last_lines);
    const size_t missing = text.find(kMissingLibrary);
    if (end.status.exit_code == 127 && missing != std::string::npos) {
      const size_t start = missing + std::string_view(kMissingLibrary).size();
      cause.detail += ": a shared library is missing: " + text.substr(start, text.find('\n', start) - start);
      cause.advice = "install it, or add its folder to the driver's LD_LIBRARY_PATH, which the workers inherit";
    } else if (end.status.exit_code == 127) {
      cause.advice = "this code means that a program or library was not found";
    } else if (end.status.exit_code == 126) {
      cause.advice = "this code means that a program may not be executed";
    } else if (end.status.exit_code > 128 && end.status.exit_code < 128 + NSIG) {
      cause.advice = "this code means that a child of it was ended by " + signal_name(end.status.exit_code - 128);
    }
  }
  if (cause.advice.empty()) cause.advice = advice_on(joined(end.last_lines));
  return cause;
}

std::string advice_on(std::string_view text) {
  static constexpr std::array<std::pair<const char*, const char*>, 10> kKnown = {{
      {"No space left on device",
       "a disk is full: df -h tells which; give the run another storage_path, or keep fewer "
       "checkpoints (CheckpointConfig.num_to_keep)"},
      {"Disk quota exceeded", "the quota of a disk is used up: delete something, or give the run another storage_path"},
      {"Too many open files", "raise the limit with ulimit -n before the driver is started"},
      {"invalid device ordinal",
       "there are fewer GPUs than workers ask for: nvidia-smi -L and CUDA_VISIBLE_DEVICES tell which there are; start "
       "fewer workers"},
      {"no CUDA-capable device",
       "no GPU can be used: nvidia-smi and CUDA_VISIBLE_DEVICES tell why; or train without use_gpu"},
      {"CUDA out of memory", "the GPU's memory is full: use smaller batches, or stop what else uses the GPU"},
      {"can't allocate memory",
       "the machine's memory is full, or a limit (ulimit -v) is reached: use smaller batches or "
       "fewer workers"},
      {"std::bad_alloc",
       "the machine's memory is full, or a limit (ulimit -v) is reached: use smaller batches or fewer "
       "workers"},
      {"Resource temporarily unavailable",
       "the system refuses new threads or processes: ulimit -u and the cgroup's "
       "pids.max are their limits"},
      {"terminate called without an active exception",
       "a thread was left running. In Python these may be a process group's, while Python ends: import "
       "torch.distributed.nn before init_process_group(), and call destroy_process_group() once the model is gone "
       "(pytorch/pytorch#190489)"},
  }};
  for (const auto& [words, advice] : kKnown) {
    if (text.find(words) != std::string_view::npos) return advice;
  }
  return "";
}

}  // namespace paceline::policy
