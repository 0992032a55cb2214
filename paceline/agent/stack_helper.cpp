#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <string>

#include "paceline/agent/process_tree_internal.h"
#include "paceline/agent/stack_helper_internal.h"
#include "paceline/stacks/capture.h"
#include "paceline/stacks/python.h"
#include "paceline/stacks/self_capture.h"
#include "paceline/stacks/symbols.h"

namespace paceline::agent {
namespace {

constexpr int kOutput = 3;

// Leaves open: 0 and 1 (nothing), 2 (standard error), kOutput. A copy of the guardian's connections must not outlive
// it.
void keep_output(Descriptor output) {
  ::dup2(output.release(), kOutput);
  ::close_range(kOutput + 1, ~0U, 0);
}

void write_all(const std::string& text) {
  for (size_t written = 0; written < text.size();) {
    const ssize_t count = ::write(kOutput, text.data() + written, text.size() - written);
    if (count < 0) return;  // nobody reads any more
    written += static_cast<size_t>(count);
  }
}

// Workers and what they have started: programs of the user's under `paceline run`, loader processes.
std::vector<std::pair<WorkerId, pid_t>> with_children(std::vector<std::pair<WorkerId, pid_t>> workers) {
  constexpr size_t kMostProcesses = 1000;
  for (size_t i = 0; i < workers.size() && workers.size() < kMostProcesses; ++i) {
    const WorkerId worker = workers[i].first;
    for (const pid_t child : children_of(workers[i].second)) workers.emplace_back(worker, child);
  }
  std::ranges::stable_sort(workers, {}, [](const auto& one) { return one.first; });
  return workers;
}

// All are captured before the first is named, so that they belong to about the same time.
void tell_stacks(const std::vector<std::pair<WorkerId, pid_t>>& workers) {
  std::vector<arrow::Result<stacks::Snapshot>> snapshots;
  for (const auto& [worker, pid] : workers) snapshots.push_back(stacks::capture(pid));
  stacks::Symbols symbols;
  for (size_t i = 0; i < workers.size(); ++i) {
    stacks::WorkerStacks found{.worker = workers[i].first.value};
    if (snapshots[i].ok()) {
      found.stacks = symbols.name(*snapshots[i]);
      if (stacks::runs_python(snapshots[i]->maps)) {
        stacks::PythonStacks python = stacks::python_stacks(workers[i].second);
        found.stacks.python = std::move(python.text);
        found.stacks.python_problem = std::move(python.problem);
      }
    } else {
      found.stacks.pid = workers[i].second;
      found.stacks.problem = snapshots[i].status().message();
    }
    write_all(stacks::encode_lines({found}));
  }
}

void tell_crash(const stacks::Crash& crash) {
  stacks::Symbols symbols;
  write_all(stacks::encode_lines({{.stacks = symbols.name(crash.snapshot)}}));
}

// Not fork(): its handlers want locks of threads that the guardian has left behind in the driver.
template <class Work>
arrow::Result<pid_t> fork_helper(Descriptor output, Work work) {
  const auto pid = static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, 0));
  if (pid < 0) return errno_status("forking the helper that reads stacks");
  if (pid > 0) return pid;
  ::prctl(PR_SET_NAME, "paceline-stacks");
  ::signal(SIGALRM, SIG_DFL);
  ::alarm(kStackHelperSeconds);
  keep_output(std::move(output));
  work();
  ::_exit(0);
}

}  // namespace

arrow::Result<pid_t> fork_stack_helper(const std::vector<std::pair<WorkerId, pid_t>>& workers, Descriptor output) {
  return fork_helper(std::move(output), [&workers] { tell_stacks(with_children(workers)); });
}

arrow::Result<pid_t> fork_crash_helper(Descriptor memory, Descriptor output) {
  ARROW_ASSIGN_OR_RAISE(std::optional<stacks::Crash> crash, stacks::read_crash(std::move(memory)));
  if (!crash) return arrow::Status::Invalid("the process has noted no crash");
  return fork_helper(std::move(output), [&crash] { tell_crash(*crash); });
}

}  // namespace paceline::agent
