// ExecutionOptions: what reading datasets may use.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <thread>

#include "paceline/core/config/field.h"
#include "paceline/data/memory/budget.h"

namespace paceline {

#define PACELINE_EXECUTION_OPTIONS_FIELDS(FIELD)                                                                     \
  FIELD(std::optional<int64_t>, cpu, std::nullopt, ::paceline::at_least(1),                                          \
        "Threads that read and decode on a machine; not set: as many as there are cores")                            \
  FIELD(std::optional<int64_t>, memory, std::nullopt, ::paceline::at_least(1),                                       \
        "Bytes of blocks that are read ahead, of what is being decoded or mixed, and of batches, on a machine; not " \
        "set: 256 MiB")
PACELINE_CONFIG(ExecutionOptions, PACELINE_EXECUTION_OPTIONS_FIELDS);

namespace train {

/// What one of several readers of a machine may use.
struct ReadLimits {
  int64_t threads = 2;
  int64_t read_ahead_bytes = paceline::data::kDefaultBudget;
};

/// Of one of `readers` readers.
inline ReadLimits limits_of(const ExecutionOptions& options, int64_t readers = 1) {
  ReadLimits limits;
  const int64_t cores = std::max(1U, std::thread::hardware_concurrency());
  limits.threads = std::max<int64_t>(1, options.cpu.value_or(cores) / readers);
  limits.read_ahead_bytes = options.memory.value_or(limits.read_ahead_bytes);
  return limits;
}

}  // namespace train
}  // namespace paceline
