// What /proc/PID/maps says about one address. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace paceline::stacks {

struct Mapping {
  uint64_t start = 0;
  uint64_t end = 0;
  std::string path;  // of the file, "[stack]", …; "" for anonymous memory
};

/// The mapping that holds `address`.
std::optional<Mapping> find_mapping(const std::string& maps, uint64_t address);

}  // namespace paceline::stacks
