// DebugConfig: what is watched while a run trains: hangs, slow ranks, numbers that are not finite, ranks that differ.
#pragma once

#include "paceline/core/config/field.h"

namespace paceline {

#define PACELINE_DEBUG_CONFIG_FIELDS(FIELD)                                                                            \
  FIELD(std::string, hang_action, "auto", ::paceline::one_of({"auto", "observe", "fail", "off"}),                      \
        "What follows the report of a hang: nothing (observe) or a restart (fail); auto: observe on a terminal, else " \
        "fail; off: no watch")                                                                                         \
  FIELD(double, hang_floor_s, 30.0, ::paceline::between(0, 1e9),                                                       \
        "Nothing counts as a hang before this many seconds without progress")                                          \
  FIELD(double, hang_factor, 3.0, ::paceline::at_least(1),                                                             \
        "A pause counts as a hang when it takes this many times as long as the longest pause so far between two "      \
        "signs of progress")                                                                                           \
  FIELD(double, hang_start_s, 600.0, ::paceline::between(0, 1e9),                                                      \
        "Seconds without progress that count as a hang before the third step, and for a rank that computes or for "    \
        "which no other waits")                                                                                        \
  FIELD(double, straggler_factor, 1.5, ::paceline::more_than(1),                                                       \
        "A rank is reported as slow when its steps take this many times as long as the others' median")                \
  FIELD(std::optional<int64_t>, debug_rank, std::nullopt, ::paceline::at_least(0),                                     \
        "Rank that has the driver's terminal, for gdb in C++ and for breakpoint() in Python; nothing counts as a "     \
        "hang then")                                                                                                   \
  FIELD(std::string, nan_watch, "off", ::paceline::one_of({"off", "report", "stop"}),                                  \
        "Checks metrics and gradients for NaN and infinity: names the first (report), or fails the run (stop)")        \
  FIELD(bool, check_collectives, false, ::paceline::any_value(),                                                       \
        "The ranks compare call and tensors before every collective, which makes each of them slower")                 \
  FIELD(int64_t, check_ranks_every, 0, ::paceline::at_least(0),                                                        \
        "Every this many steps, models of prepare_model check that all ranks hold the same weights; 0: never")         \
  FIELD(bool, heap_profile, false, ::paceline::any_value(),                                                            \
        "Workers use jemalloc, which notes a sample of their allocations: `paceline profile --memory` then shows who " \
        "has allocated what is in memory")
PACELINE_CONFIG(DebugConfig, PACELINE_DEBUG_CONFIG_FIELDS);

}  // namespace paceline
