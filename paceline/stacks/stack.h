// The stacks of a process's threads, as people read them and as they travel: functions, source lines, modules.
//
// Pure data and its text. stacks/capture.h takes them from a process, stacks/symbols.h gives addresses their names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/core/json.h"
#include "paceline/core/record.h"

namespace paceline::stacks {

// `function` is demangled, "" where no symbol is known; `file` and `line` where the module has line tables; `module` is
// the file's name without folders. `inlined`: the function is a part of the next frame's.
#define PACELINE_STACK_FRAME_FIELDS(FIELD) \
  FIELD(std::string, function, "")         \
  FIELD(std::string, file, "")             \
  FIELD(int64_t, line, 0)                  \
  FIELD(std::string, module, "")           \
  FIELD(bool, inlined, false)
PACELINE_RECORD(StackFrame, PACELINE_STACK_FRAME_FIELDS);
using StackFrames = std::vector<StackFrame>;

// `frames` are innermost first. `state` is the kernel's letter: R runs, S sleeps, D sleeps uninterruptibly, T is
// stopped. `problem`: why there are no frames, or no more.
#define PACELINE_THREAD_STACK_FIELDS(FIELD) \
  FIELD(int64_t, tid, 0)                    \
  FIELD(std::string, name, "")              \
  FIELD(std::string, state, "")             \
  FIELD(StackFrames, frames, {})            \
  FIELD(std::string, problem, "")
PACELINE_RECORD(ThreadStack, PACELINE_THREAD_STACK_FIELDS);
using ThreadStacks = std::vector<ThreadStack>;

// `threads`: the main thread first. `way`: "ptrace" or "signal". `longest_pause_s`: how long the thread that was held
// longest stood still for this. `python`: the Python stacks as py-spy prints them, "" for a process without Python or
// without py-spy, which `python_problem` then says. `problem`: why there are no threads.
#define PACELINE_PROCESS_STACKS_FIELDS(FIELD) \
  FIELD(int64_t, pid, 0)                      \
  FIELD(std::string, way, "")                 \
  FIELD(ThreadStacks, threads, {})            \
  FIELD(double, longest_pause_s, 0.0)         \
  FIELD(std::string, python, "")              \
  FIELD(std::string, python_problem, "")      \
  FIELD(std::string, problem, "")
PACELINE_RECORD(ProcessStacks, PACELINE_PROCESS_STACKS_FIELDS);

// A worker's stacks on their way through agent and controller, which each add what they know. `rank` is -1 before ranks
// are given.
#define PACELINE_WORKER_STACKS_FIELDS(FIELD) \
  FIELD(int64_t, worker, 0)                  \
  FIELD(int64_t, rank, -1)                   \
  FIELD(std::string, node, "")               \
  FIELD(ProcessStacks, stacks, {})
PACELINE_RECORD(WorkerStacks, PACELINE_WORKER_STACKS_FIELDS);

/// One line of JSON for each, as they travel and as they are kept.
std::string encode_lines(const std::vector<WorkerStacks>& workers);
/// What encode_lines() wrote; a line that is not whole or does not fit is left out.
std::vector<WorkerStacks> decode_lines(const std::string& lines);

/// "train_loop (mnist.cpp:41)", "poll (libc.so.6)".
std::string to_text(const StackFrame& frame);
/// Each thread with its frames, one a line. Threads whose stacks are equal are shown once, with their names.
std::string to_text(const ProcessStacks& stacks);
/// The same with a line above that says whose they are.
std::string to_text(const WorkerStacks& worker);

}  // namespace paceline::stacks
