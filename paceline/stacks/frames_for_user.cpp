#include "paceline/stacks/frames_for_user.h"

#include <algorithm>
#include <sstream>
#include <string_view>

namespace paceline::stacks {
namespace {

bool is_interpreters(const StackFrame& frame) {
  return frame.module.starts_with("libpython") || frame.module.starts_with("python3");
}

bool is_pacelines(std::string_view frame) {
  return frame.find("(paceline/") != std::string_view::npos;
}

bool calls_train_loop(std::string_view frame) {
  return frame.starts_with("train (paceline/_worker.py:");
}

std::string_view without_indent(std::string_view line) {
  const size_t start = line.find_first_not_of(' ');
  return start == std::string_view::npos ? "" : line.substr(start);
}

// Of py-spy's text, in which a thread is a line `Thread 31768 (idle): "MainThread"` with its frames below, indented.
std::vector<std::string> main_thread_of(const std::string& python) {
  std::vector<std::string> frames;
  std::istringstream lines(python);
  bool inside = false;
  size_t indent = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string_view text = without_indent(line);
    if (text.starts_with("Thread ")) {
      if (inside) break;
      inside = text.ends_with("\"MainThread\"");
      indent = line.size() - text.size();
    } else if (inside && !text.empty() && line.size() - text.size() > indent) {
      frames.emplace_back(text);
    }
  }
  return frames;
}

}  // namespace

std::vector<std::string> frames_for_user(const ProcessStacks& stacks) {
  std::vector<std::string> frames = main_thread_of(stacks.python);
  if (!frames.empty()) {
    frames.erase(std::ranges::find_if(frames, calls_train_loop), frames.end());
    std::erase_if(frames, is_pacelines);
    return frames;
  }
  if (stacks.threads.empty()) return {};
  for (const StackFrame& frame : stacks.threads.front().frames) {
    if (is_interpreters(frame)) {  // what has called it is more of the interpreter, and Paceline
      if (!stacks.python_problem.empty()) frames.push_back("lines of Python: " + stacks.python_problem);
      break;
    }
    frames.push_back(to_text(frame));
  }
  return frames;
}

}  // namespace paceline::stacks
