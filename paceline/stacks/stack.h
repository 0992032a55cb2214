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

// One frame.
#define PACELINE_STACK_FRAME_FIELDS(FIELD)                                      \
  FIELD(std::string, function, "") /* demangled, "" where no symbol is known */ \
  FIELD(std::string, file, "")     /* where the module has line tables */       \
  FIELD(int64_t, line, 0)          /* likewise */                               \
  FIELD(std::string, module, "")   /* the file's name without folders */        \
  FIELD(bool, inlined, false)      /* the function is a part of the next frame's */
PACELINE_RECORD(StackFrame, PACELINE_STACK_FRAME_FIELDS);
using StackFrames = std::vector<StackFrame>;

// The stack of one thread.
#define PACELINE_THREAD_STACK_FIELDS(FIELD)                                                                           \
  FIELD(int64_t, tid, 0)                                                                                              \
  FIELD(std::string, name, "")                                                                                        \
  FIELD(std::string, state, "")   /* the kernel's letter: R runs, S sleeps, D sleeps uninterruptibly, T is stopped */ \
  FIELD(StackFrames, frames, {})  /* innermost first */                                                               \
  FIELD(std::string, problem, "") /* why there are no frames, or no more */
PACELINE_RECORD(ThreadStack, PACELINE_THREAD_STACK_FIELDS);
using ThreadStacks = std::vector<ThreadStack>;

// The stacks of one process.
#define PACELINE_PROCESS_STACKS_FIELDS(FIELD)                                                              \
  FIELD(int64_t, pid, 0)                                                                                   \
  FIELD(std::string, way, "")         /* "ptrace" or "signal" */                                           \
  FIELD(ThreadStacks, threads, {})    /* the main thread first */                                          \
  FIELD(double, longest_pause_s, 0.0) /* how long the thread that was held longest stood still for this */ \
  /* as py-spy prints them; "" for a process without Python, or without py-spy */                          \
  FIELD(std::string, python, "")                                                                           \
  FIELD(std::string, python_problem, "") /* why py-spy gave none */                                        \
  FIELD(std::string, problem, "")        /* why there are no threads */
PACELINE_RECORD(ProcessStacks, PACELINE_PROCESS_STACKS_FIELDS);

// A worker's stacks on their way through agent and controller, which each add what they know.
#define PACELINE_WORKER_STACKS_FIELDS(FIELD)               \
  FIELD(int64_t, worker, 0)                                \
  FIELD(int64_t, rank, -1) /* -1 before ranks are given */ \
  FIELD(std::string, node, "")                             \
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
