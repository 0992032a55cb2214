#include <charconv>
#include <sstream>

#include "paceline/stacks/mapping_internal.h"

namespace paceline::stacks {

// "start-end permissions offset device inode   path"
std::optional<Mapping> find_mapping(const std::string& maps, uint64_t address) {
  std::istringstream lines(maps);
  for (std::string line; std::getline(lines, line);) {
    Mapping mapping;
    const char* last = line.data() + line.size();
    const char* dash = std::from_chars(line.data(), last, mapping.start, 16).ptr;
    if (dash == last) continue;
    std::from_chars(dash + 1, last, mapping.end, 16);
    if (address < mapping.start || address >= mapping.end) continue;
    const size_t path = line.find_first_of("/[");
    if (path != std::string::npos) mapping.path = line.substr(path);
    return mapping;
  }
  return std::nullopt;
}

}  // namespace paceline::stacks
