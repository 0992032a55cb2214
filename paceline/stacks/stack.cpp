#include "paceline/stacks/stack.h"

#include <cstdio>
#include <sstream>

namespace paceline::stacks {
namespace {

std::string thread_label(const ThreadStack& thread) {
  std::string label = std::to_string(thread.tid);
  if (!thread.name.empty()) label += " \"" + thread.name + "\"";
  if (thread.state == "R") return label + ", running";
  if (thread.state == "D") return label + ", waiting in the kernel";
  if (thread.state == "T" || thread.state == "t") return label + ", stopped";
  return label;
}

bool reads_the_same(const ThreadStack& one, const ThreadStack& other) {
  return one.frames == other.frames && one.problem == other.problem;
}

}  // namespace

std::string to_text(const StackFrame& frame) {
  std::string text = frame.function.empty() ? "?" : frame.function;
  if (!frame.file.empty()) {
    text += " (" + frame.file + (frame.line > 0 ? ":" + std::to_string(frame.line) : "") + ")";
  } else if (!frame.module.empty()) {
    text += " (" + frame.module + ")";
  }
  return text;
}

std::string to_text(const ProcessStacks& stacks) {
  std::string text;
  if (!stacks.problem.empty()) text += "  no stacks: " + stacks.problem + "\n";
  if (!stacks.python.empty()) text += stacks.python;
  if (!stacks.python_problem.empty()) text += "  native stacks only: " + stacks.python_problem + "\n";
  std::vector<bool> shown(stacks.threads.size(), false);
  for (size_t i = 0; i < stacks.threads.size(); ++i) {
    if (shown[i]) continue;
    const ThreadStack& thread = stacks.threads[i];
    text += "  thread " + thread_label(thread);
    for (size_t other = i + 1; other < stacks.threads.size(); ++other) {
      if (!reads_the_same(thread, stacks.threads[other])) continue;
      shown[other] = true;
      text += "; " + thread_label(stacks.threads[other]);
    }
    text += "\n";
    for (const StackFrame& frame : thread.frames) text += "    " + to_text(frame) + "\n";
    if (!thread.problem.empty()) text += "    [" + thread.problem + "]\n";
  }
  return text;
}

std::string to_text(const WorkerStacks& worker) {
  std::string text =
      worker.rank >= 0 ? "rank " + std::to_string(worker.rank) : "worker " + std::to_string(worker.worker);
  if (worker.stacks.pid != 0) text += ", process " + std::to_string(worker.stacks.pid);
  if (!worker.node.empty()) text += " on node " + worker.node;
  if (worker.stacks.longest_pause_s > 0) {
    char pause[80];
    std::snprintf(pause, sizeof pause, ", no thread held longer than %.2g ms", worker.stacks.longest_pause_s * 1e3);
    text += pause;
  }
  return text + "\n" + to_text(worker.stacks);
}

std::string encode_lines(const std::vector<WorkerStacks>& workers) {
  std::string lines;
  for (const WorkerStacks& worker : workers) lines += encode_json(worker) + "\n";
  return lines;
}

std::vector<WorkerStacks> decode_lines(const std::string& lines) {
  std::vector<WorkerStacks> workers;
  std::istringstream stream(lines);
  for (std::string line; std::getline(stream, line);) {
    const auto json = decode_json(line);
    if (!json.ok()) continue;
    try {
      workers.push_back(json->get<WorkerStacks>());
    } catch (const Json::exception&) {
      continue;
    }
  }
  return workers;
}

}  // namespace paceline::stacks
