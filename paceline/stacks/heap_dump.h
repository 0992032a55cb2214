// What jemalloc writes of a process's heap: by stack, how much of what it has noted is still in use. Text, as jemalloc
// 5 has it ("heap_v2"), with the process's mappings behind it.
//
// Parsing is pure and takes any text.
#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/stacks/profile.h"
#include "paceline/stacks/symbols.h"

namespace paceline::stacks {

struct HeapStack {
  std::vector<uint64_t> addresses;  // innermost first, each the call itself
  int64_t bytes = 0;                // in use, an estimate from those that were noted
};

struct HeapDump {
  std::vector<HeapStack> stacks;
  std::string maps;  // /proc/PID/maps
};

/// Whether it is meant to be one.
bool is_heap_dump(std::string_view text);

/// Lines that do not fit are left out. Invalid when it is none.
arrow::Result<HeapDump> parse_heap_dump(std::string_view text);

/// Names it; the process may have ended.
Profile profile_of(const HeapDump& heap, pid_t pid, Symbols& symbols);

}  // namespace paceline::stacks
