#include "paceline/stacks/capture.h"

#include <sys/prctl.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "paceline/core/posix/kernel_file.h"
#include "paceline/stacks/held_thread_internal.h"
#include "paceline/stacks/mapping_internal.h"

namespace paceline::stacks {
namespace {

using Steady = std::chrono::steady_clock;

// Deeper stacks (runaway recursion) lose their outermost frames.
constexpr uint64_t kMostStack = uint64_t{1} << 20;

std::string read_line(const std::string& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

bool copy(const HeldThread& held, pid_t pid, const Mappings& mappings, ThreadSnapshot& into) {
  if (!held.copy_registers(into)) return false;
  const uint64_t pointer = into.registers[kStackPointer];
  if (const Mapping* const mapping = mappings.find(pointer)) {
    copy_stack(pid, std::min(mapping->end - pointer + kRedZone, kMostStack), into);
  }
  return true;
}

}  // namespace

arrow::Result<Snapshot> capture(pid_t pid, std::chrono::milliseconds patience) {
  const ChildSignalBlocked blocked;
  const auto deadline = Steady::now() + patience;
  const std::string process = "/proc/" + std::to_string(pid);
  Snapshot snapshot{.pid = pid, .maps = read_kernel_file(process + "/maps")};
  const Mappings mappings(snapshot.maps);
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
      if (!copy(held, pid, mappings, thread)) thread.problem = "its registers could not be read";
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
