// SelfCapture: what a process notes of its own death by a fatal signal, in memory that its agent shares.
//
// Handlers of SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGABRT copy the registers, the stack and the map of the process into
// the memory; nothing is unwound, named or allocated in a process that is broken already: the guardian's helper does
// that afterwards (read_crash(), then stacks/symbols.h). std::terminate notes what() of the exception first. Then the
// handlers that were there before get the signal (a debugger's, a sanitizer's, Python's), or the process ends by it.
// The main thread has a stack of its own for the handler, so that a stack overflow there is noted; other threads' are
// not.
//
// Threading: note_crashes() once a process, at its start. A forked child notes nothing: the memory is its parent's.
#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <optional>
#include <string>

#include "paceline/core/posix/descriptor.h"
#include "paceline/stacks/snapshot.h"

namespace paceline::stacks {

/// From now on this process notes its end; gives the memory in which it will. Most of that is not touched, and costs
/// nothing, before there is a crash.
arrow::Result<Descriptor> note_crashes();

/// What a process noted. `code` and `address` are si_code and si_addr; `place` is the mapping that holds the address: a
/// file, "[stack]", or "" for none. `what`: of the exception that ended the process.
struct Crash {
  int signal = 0;
  int code = 0;
  uint64_t address = 0;
  std::string place;
  std::string what;
  Snapshot snapshot;  // the thread that crashed
};

/// nullopt while nothing was noted. Invalid when `memory` is none of note_crashes().
arrow::Result<std::optional<Crash>> read_crash(Descriptor memory);

}  // namespace paceline::stacks
