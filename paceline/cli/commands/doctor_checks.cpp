#include "paceline/cli/commands/doctor_checks.h"

#include <array>
#include <cstdlib>
#include <sstream>

#include "paceline/core/bytes_text.h"

namespace paceline::cli {
namespace {

constexpr int kLeastCompiler = 12;
constexpr int64_t kLeastSharedMemory = int64_t{64} << 20;
constexpr int64_t kEnoughSharedMemory = int64_t{1} << 30;
constexpr int64_t kEnoughFiles = 4096;

Finding compiler(const Facts& facts) {
  if (facts.compiler.empty()) {
    return {"compiler", Verdict::note, "no g++ was found", "to build programs: apt-get install g++"};
  }
  if (facts.compiler_major.value_or(0) < kLeastCompiler) {
    return {"compiler", Verdict::note, facts.compiler + " is older than g++ 12", "to build programs: install g++ 12"};
  }
  return {"compiler", Verdict::fine, facts.compiler, ""};
}

Finding torch(const Facts& facts) {
  if (!facts.torch.empty()) return {"torch", Verdict::fine, facts.torch, ""};
  return {"torch", Verdict::note, "Python finds no torch",
          "for Python programs, and to build against the wheel's LibTorch: pip install torch"};
}

std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

Finding arrow_library(const Facts& facts) {
  const std::string text = facts.arrow + (facts.object_stores.empty() ? "" : " with " + listed(facts.object_stores));
  if (facts.missing_object_stores.empty()) return {"arrow", Verdict::fine, text, ""};
  return {"arrow", Verdict::note, text + ", without " + listed(facts.missing_object_stores),
          "for runs there: build Paceline with an Arrow that has it"};
}

Finding gpu(const Facts& facts) {
  if (facts.gpus.empty() && facts.gpu_driver.empty()) return {"gpu", Verdict::fine, "none; training uses the CPU", ""};
  if (facts.gpus.empty()) {
    return {"gpu", Verdict::broken, "the driver " + facts.gpu_driver + " is loaded, but there is no /dev/nvidia0",
            "in a container: start it with --gpus all; else run nvidia-smi as root once"};
  }
  if (facts.gpu_driver.empty()) {
    return {"gpu", Verdict::broken, "there are GPU devices, but the NVIDIA driver is not loaded",
            "install the driver, or load it with `modprobe nvidia`"};
  }
  std::string text;
  for (const Gpu& gpu : facts.gpus) {
    text += (text.empty() ? "" : ", ") + gpu.name;
    if (gpu.memory_bytes == 0) continue;
    text += " with " + bytes_text(gpu.memory_bytes) + " (" + bytes_text(gpu.free_bytes) + " free)";
  }
  return {"gpu", Verdict::fine, text + "; driver " + facts.gpu_driver, ""};
}

Finding shared_memory(const Facts& facts) {
  if (!facts.shared_memory_bytes) {
    return {"shared memory", Verdict::broken, "/dev/shm is missing; workers cannot share tensors",
            "mount a tmpfs at /dev/shm"};
  }
  const std::string text = bytes_text(facts.shared_memory_free_bytes.value_or(0)) + " of " +
                           bytes_text(*facts.shared_memory_bytes) + " free in /dev/shm";
  constexpr const char* kAdvice = "in a container: --shm-size=8g or --ipc=host; else mount -o remount,size=8g /dev/shm";
  if (facts.shared_memory_free_bytes.value_or(0) < kLeastSharedMemory) {
    return {"shared memory", Verdict::broken, text, std::string("delete what is left there, or ") + kAdvice};
  }
  if (*facts.shared_memory_bytes < kEnoughSharedMemory) return {"shared memory", Verdict::note, text, kAdvice};
  return {"shared memory", Verdict::fine, text, ""};
}

Finding tracing(const Facts& facts) {
  if (facts.ptrace_scope.value_or(0) == 0) return {"ptrace", Verdict::fine, "own processes can be examined", ""};
  const std::string text = "kernel.yama.ptrace_scope is " + std::to_string(*facts.ptrace_scope);
  if (*facts.ptrace_scope == 1) {
    return {"ptrace", Verdict::fine, text + ": a run's workers can be examined through its driver", ""};
  }
  return {"ptrace", Verdict::note, text + ": stacks of workers cannot be read",
          "for `paceline stacks`: sysctl kernel.yama.ptrace_scope=1" +
              std::string(*facts.ptrace_scope >= 3 ? " (after a restart: 3 stays until then)" : "")};
}

Finding perf(const Facts& facts) {
  if (!facts.perf_event_paranoid) {
    return {"perf", Verdict::note, "the kernel offers no perf events", "programs cannot be profiled with perf here"};
  }
  const std::string text = "kernel.perf_event_paranoid is " + std::to_string(*facts.perf_event_paranoid);
  if (*facts.perf_event_paranoid <= 2) return {"perf", Verdict::fine, text, ""};
  return {"perf", Verdict::note, text + ": only root may profile", "to profile: sysctl kernel.perf_event_paranoid=2"};
}

Finding open_files(const Facts& facts) {
  const std::string text =
      std::to_string(facts.open_files) + ", at most " + std::to_string(facts.open_files_most) + " (raised when needed)";
  if (facts.open_files_most >= kEnoughFiles) return {"open files", Verdict::fine, text, ""};
  return {"open files", Verdict::note, text,
          "for many workers: raise the hard limit (ulimit -Hn, limits.conf) to 65536"};
}

Finding time(const Facts& facts) {
  if (facts.clock_synchronised.value_or(false)) return {"time", Verdict::fine, "the clock is synchronised", ""};
  return {"time", Verdict::note,
          facts.clock_synchronised ? "the clock is not synchronised; times of several machines will not fit together"
                                   : "whether the clock is synchronised cannot be seen",
          "start an NTP client, such as systemd-timesyncd or chrony"};
}

Finding storage(const Facts& facts) {
  if (facts.storage_problem.empty()) return {"storage", Verdict::fine, facts.storage + " can be written", ""};
  return {"storage", Verdict::broken, facts.storage_problem,
          "give another RunConfig.storage_path, or free space and rights there"};
}

Finding run_store(const Facts& facts) {
  if (facts.run_store_problem.empty()) return {"run store", Verdict::fine, facts.run_store, ""};
  return {"run store", Verdict::broken, facts.run_store_problem,
          "`paceline index` makes it anew; PACELINE_STATE_DIR puts it elsewhere"};
}

Finding machine(const Facts& facts) {
  return {"machine", Verdict::fine,
          std::to_string(facts.cores) + (facts.cores == 1 ? " core, " : " cores, ") + bytes_text(facts.memory_bytes),
          ""};
}

}  // namespace

GpuQuery parse_gpus(const std::string& lines) {
  GpuQuery query;
  std::istringstream text(lines);
  for (std::string line; std::getline(text, line);) {
    // From the end: a name may have commas.
    std::array<std::string, 3> fields;
    size_t end = line.size();
    for (auto field = fields.rbegin(); field != fields.rend() && end != std::string::npos; ++field) {
      const size_t comma = end < 2 ? std::string::npos : line.rfind(", ", end - 2);
      if (comma != std::string::npos) *field = line.substr(comma + 2, end - comma - 2);
      end = comma;
    }
    if (end == std::string::npos) continue;
    const auto bytes = [](const std::string& mebibytes) {
      return std::strtoll(mebibytes.c_str(), nullptr, 10) << 20;  // 0 for "[N/A]"
    };
    query.gpus.push_back({line.substr(0, end), bytes(fields[0]), bytes(fields[1])});
    query.driver = fields[2];
  }
  return query;
}

std::vector<Finding> examine(const Facts& facts) {
  return {machine(facts),    compiler(facts),      torch(facts),   arrow_library(facts),
          gpu(facts),        shared_memory(facts), tracing(facts), perf(facts),
          open_files(facts), time(facts),          storage(facts), run_store(facts)};
}

}  // namespace paceline::cli
