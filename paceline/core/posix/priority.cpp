#include "paceline/core/posix/priority.h"

#include <sched.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace paceline {

void yield_to_others() {
  constexpr int kNice = 10;
  std::error_code problem;
  // Linux has a priority for each thread; new ones have that of the thread that makes them.
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", problem)) {
    (void)::setpriority(PRIO_PROCESS, static_cast<id_t>(std::stoul(thread.path().filename().string())), kNice);
  }
  // Where the kernel groups processes by session (sched_autogroup), nice counts within a group only; the group has one
  // of its own. Workers are sessions of their own.
  std::ofstream("/proc/self/autogroup") << kNice;
}

void never_preempt() {
  const sched_param none{};
  (void)::sched_setscheduler(0, SCHED_BATCH, &none);
}

}  // namespace paceline
