// Ranks for tests that are processes of their own: the test program started again (child_program.h).
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "paceline/testing/child_program.h"

namespace paceline::collective {

/// Starts `action` as a rank. `folder`: where the ranks meet; it is made where there is none.
inline pid_t start_rank(const std::string& action, const std::string& folder, int rank,
                        const std::string& fail_points = "") {
  std::filesystem::create_directories(folder);
  return testing::start_child(action, folder + "/" + std::to_string(rank), fail_points);
}

/// The folder and the rank, of what an action is given. A process that hangs is ended by SIGALRM.
inline std::pair<std::string, int> place_of_rank(const std::string& argument) {
  ::alarm(50);
  const std::filesystem::path path(argument);
  return {path.parent_path(), std::stoi(path.filename())};
}

/// What this process has mapped, or holds open, of memory for collectives; "" for nothing.
inline std::string shared_memory_of_this_process() {
  const auto is_shared = [](const std::string& text) {
    return text.find("paceline-collective") != std::string::npos || text.find("/dev/shm") != std::string::npos;
  };
  std::string found, line;
  for (std::ifstream maps("/proc/self/maps"); std::getline(maps, line);) {
    if (is_shared(line)) found += line + "\n";
  }
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code is_gone;  // the descriptor of this look itself
    const std::string target = std::filesystem::read_symlink(entry, is_gone);
    if (is_shared(target)) found += target + "\n";
  }
  return found;
}

}  // namespace paceline::collective
