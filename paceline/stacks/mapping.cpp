#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>

#include "paceline/stacks/mapping_internal.h"

namespace paceline::stacks {
namespace {

// "start-end permissions offset device inode   path"
std::optional<Mapping> parse_mapping(const std::string& line) {
  Mapping mapping;
  const char* const last = line.data() + line.size();
  const char* const dash = std::from_chars(line.data(), last, mapping.start, 16).ptr;
  if (dash == last) return std::nullopt;
  std::from_chars(dash + 1, last, mapping.end, 16);
  if (const size_t permissions = line.find(' '); permissions != std::string::npos) {
    mapping.is_code = line.substr(permissions + 1, 4).find('x') != std::string::npos;
  }
  if (const size_t path = line.find_first_of("/["); path != std::string::npos) mapping.path = line.substr(path);
  return mapping;
}

}  // namespace

std::optional<Mapping> find_mapping(const std::string& maps, uint64_t address) {
  const Mappings mappings(maps);
  const Mapping* const found = mappings.find(address);
  return found == nullptr ? std::nullopt : std::optional(*found);
}

Mappings::Mappings(const std::string& maps) {
  std::istringstream lines(maps);
  for (std::string line; std::getline(lines, line);) {
    if (auto mapping = parse_mapping(line)) mappings_.push_back(*std::move(mapping));
  }
  std::ranges::sort(mappings_, {}, &Mapping::start);
}

const Mapping* Mappings::find(uint64_t address) const {
  const auto after = std::ranges::upper_bound(mappings_, address, {}, &Mapping::start);
  if (after == mappings_.begin() || address >= std::prev(after)->end) return nullptr;
  return &*std::prev(after);
}

std::string without_data_files(const std::string& maps) {
  std::set<std::string> files_of_code;
  std::istringstream lines(maps);
  for (std::string line; std::getline(lines, line);) {
    const auto mapping = parse_mapping(line);
    if (mapping && mapping->is_code) files_of_code.insert(mapping->path);
  }
  std::string text;
  std::istringstream again(maps);
  for (std::string line; std::getline(again, line);) {
    const auto mapping = parse_mapping(line);
    const bool is_of_file = mapping && mapping->path.starts_with('/');
    if (!is_of_file || files_of_code.contains(mapping->path)) text += line + "\n";
  }
  return text;
}

}  // namespace paceline::stacks
