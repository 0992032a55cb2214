// What /proc/PID/maps says about addresses. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace paceline::stacks {

struct Mapping {
  uint64_t start = 0;
  uint64_t end = 0;
  bool is_code = false;  // it may be executed
  std::string path;      // of the file, "[stack]", …; "" for anonymous memory
};

/// The mapping that holds `address`.
std::optional<Mapping> find_mapping(const std::string& maps, uint64_t address);

/// The same for many addresses of one process.
class Mappings {
 public:
  explicit Mappings(const std::string& maps);

  /// nullptr: there is nothing.
  const Mapping* find(uint64_t address) const;

 private:
  std::vector<Mapping> mappings_;  // in the order of their addresses
};

/// Without the lines of files of which no part is code. libdwfl takes all that lies between two mappings of a file for
/// a part of it: code that was generated between two of shared memory too.
std::string without_data_files(const std::string& maps);

}  // namespace paceline::stacks
