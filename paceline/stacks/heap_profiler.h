// The heap profiler of a worker: jemalloc in place of the C library's allocator, which notes the stack of one
// allocation in about half a MiB, and tells of all that are still there when it is asked (stacks/heap_dump.h).
//
// It has to be there before the program's first allocation, so the process is executed with it preloaded. Thread-safe.
#pragma once

#include <arrow/result.h>

#include <map>
#include <string>

#include "paceline/core/posix/descriptor.h"

namespace paceline::stacks {

/// Has what is executed with this environment load jemalloc, and profile. Invalid when the machine has no jemalloc: in
/// none of the environment's LD_LIBRARY_PATH and the folders that loaders look in.
arrow::Status preload_heap_profiler(std::map<std::string, std::string>& environment);

/// What this process starts from now on does not load it.
void keep_heap_profiler_from_children();

/// Whether this process's allocations are noted.
bool heap_is_profiled();

/// What is in use now, as jemalloc writes it: sealed memory. Threads go on meanwhile; who allocates what is noted waits
/// for some milliseconds. IOError when it cannot be written.
arrow::Result<Descriptor> dump_heap();

}  // namespace paceline::stacks
