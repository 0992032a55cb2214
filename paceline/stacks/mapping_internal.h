// What /proc/PID/maps says about addresses: what is mapped there, and which programs and libraries there are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace paceline::stacks {

struct Mapping {
  uint64_t start = 0;
  uint64_t end = 0;
  uint64_t offset = 0;   // in the file
  bool is_code = false;  // it may be executed
  std::string path;      // of the file, "[stack]", …; "" for anonymous memory
};

/// Those of one process; made once for all of its addresses. Pure.
class Mappings {
 public:
  explicit Mappings(const std::string& maps);

  /// The one that holds `address`; nullptr: there is nothing.
  const Mapping* find(uint64_t address) const;
  /// In the order of their addresses.
  const std::vector<Mapping>& all() const { return mappings_; }

 private:
  std::vector<Mapping> mappings_;
};

/// A program or library where the loader has put it, from its file's first byte on.
struct Image {
  uint64_t start = 0;
  uint64_t end = 0;
  std::string path;
};

/// Those with code, in the order of their addresses; none overlaps another. What else is mapped of a file (its symbols
/// were read, it is shared memory) belongs to none. An image whose code was moved into other memory (huge pages) is one
/// if its file is an ELF file: for that the file's first bytes are read.
std::vector<Image> images_of(const Mappings& mappings);

}  // namespace paceline::stacks
