// A profile that is kept with a run as pages show it: as a flame graph, of all its processes and threads. Pure.
#pragma once

#include <string>
#include <vector>

#include "paceline/core/record.h"
#include "paceline/run/kept_profiles.h"
#include "paceline/stacks/profile.h"

namespace paceline::views {

// A box of flame graphs: a function, whichever of its lines was seen.
#define PACELINE_FLAME_FRAME_FIELDS(FIELD)                                     \
  FIELD(std::string, function, "") /* "" where no symbol is known */           \
  FIELD(std::string, file, "")     /* where the module has line tables */      \
  FIELD(int64_t, line, 0)          /* the first that was seen; 0: not known */ \
  FIELD(std::string, module, "")
PACELINE_RECORD(FlameFrame, PACELINE_FLAME_FRAME_FIELDS);
using FlameFrames = std::vector<FlameFrame>;

// A process that was to be sampled.
#define PACELINE_FLAME_PROCESS_FIELDS(FIELD)                                      \
  FIELD(int64_t, worker, 0)                                                       \
  FIELD(int64_t, rank, -1) /* -1 before ranks are given */                        \
  FIELD(std::string, node, "")                                                    \
  FIELD(int64_t, pid, 0)                                                          \
  FIELD(double, rate, 0.0) /* a count stands for 1/rate s */                      \
  FIELD(double, seconds, 0.0)                                                     \
  FIELD(std::string, unit, stacks::kSamples) /* or bytes */                       \
  FIELD(int64_t, dropped, 0)                 /* counts for which was no room */   \
  FIELD(std::vector<std::string>, ways, {})  /* how; empty: it was not sampled */ \
  FIELD(std::vector<std::string>, problems, {})
PACELINE_RECORD(FlameProcess, PACELINE_FLAME_PROCESS_FIELDS);
using FlameProcesses = std::vector<FlameProcess>;

// Counts of one thread's stacks in one language. nodes[i] is where counts[i] samples ended.
#define PACELINE_FLAME_THREAD_FIELDS(FIELD)                                             \
  FIELD(int64_t, process, 0)  /* position in `processes` */                             \
  FIELD(bool, is_idle, false) /* where threads wait: it waited all the time for work */ \
  FIELD(int64_t, tid, 0)                                                                \
  FIELD(std::string, name, "")                                                          \
  FIELD(std::string, language, "")                                                      \
  FIELD(std::vector<int64_t>, nodes, {})                                                \
  FIELD(std::vector<int64_t>, counts, {})
PACELINE_RECORD(FlameThread, PACELINE_FLAME_THREAD_FIELDS);
using FlameThreads = std::vector<FlameThread>;

// All stacks of a profile as one tree, with what each thread has in it: who picks ranks and threads adds up numbers.
// Node i is `frames[frame[i]]`, called by node parent[i], which is smaller than i, or -1 for an outermost function.
#define PACELINE_FLAME_GRAPH_FIELDS(FIELD) \
  FIELD(run::KeptProfile, profile, {})     \
  FIELD(FlameFrames, frames, {})           \
  FIELD(std::vector<int64_t>, parent, {})  \
  FIELD(std::vector<int64_t>, frame, {})   \
  FIELD(FlameProcesses, processes, {})     \
  FIELD(FlameThreads, threads, {})
PACELINE_RECORD(FlameGraph, PACELINE_FLAME_GRAPH_FIELDS);

FlameGraph flame_graph_of(const run::ReadProfile& read);

}  // namespace paceline::views
