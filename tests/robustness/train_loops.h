// What the train loops of the robustness tests share; each file of loops registers its own by name.
#pragma once

#include <paceline/paceline.h>

#include <filesystem>
#include <string>

namespace paceline::testing {

inline bool is_rank(int64_t rank) {
  return get_context().get_world_rank() == rank;
}

/// What the variable BEFORE_INIT says (start_loops.cpp).
void act_before_init();

/// "checkpoint_000002", wherever it is.
inline std::string name_of(const Checkpoint& checkpoint) {
  return std::filesystem::path(checkpoint.path().substr(0, checkpoint.path().find('?'))).filename();
}

}  // namespace paceline::testing
