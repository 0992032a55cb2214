// DebugConfig: what is watched while a run trains: hangs, slow ranks, numbers that are not finite, ranks that differ.
#pragma once

#include "paceline/core/config/field.h"

namespace paceline {

#define PACELINE_DEBUG_CONFIG_FIELDS(FIELD)                                                                            \
  FIELD(                                                                                                               \
      std::string, hang_action, "auto", ::paceline::one_of({"auto", "observe", "fail", "off"}),                        \
      "What follows a hang's report: nothing (observe) or a restart (fail); auto observes on a terminal, else fails")  \
  FIELD(double, hang_floor_s, 30.0, ::paceline::between(0, 1e9),                                                       \
        "Seconds without progress before which nothing counts as a hang")                                              \
  FIELD(double, hang_factor, 3.0, ::paceline::at_least(1),                                                             \
        "A hang takes this many times as long as the longest pause between two signs of progress so far")              \
  FIELD(double, hang_start_s, 600.0, ::paceline::between(0, 1e9),                                                      \
        "Seconds without progress that count as a hang before the third step, and for a rank that computes all along") \
  FIELD(double, straggler_factor, 1.5, ::paceline::more_than(1),                                                       \
        "A rank whose steps take this many times as long as the others' median is named")                              \
  FIELD(std::optional<int64_t>, debug_rank, std::nullopt, ::paceline::at_least(0),                                     \
        "Rank that runs under gdb, with the driver's terminal; nothing counts as a hang meanwhile")                    \
  FIELD(std::string, nan_watch, "off", ::paceline::one_of({"off", "report", "stop"}),                                  \
        "Checks losses and gradients for NaN and infinity: says where the first is (report), or fails the run (stop)") \
  FIELD(bool, check_collectives, false, ::paceline::any_value(),                                                       \
        "Before every collective the ranks compare which they call, with which tensors; makes each of them slower")    \
  FIELD(int64_t, check_ranks_every, 0, ::paceline::at_least(0),                                                        \
        "Steps after which models of prepare_model compare whether all ranks hold the same weights; 0: never")
PACELINE_CONFIG(DebugConfig, PACELINE_DEBUG_CONFIG_FIELDS);

}  // namespace paceline
