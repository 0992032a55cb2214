#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>

#include "paceline/stacks/mapping_internal.h"

namespace paceline::stacks {
namespace {

// How much farther apart segments of one image lie in memory than in their file, for their alignment.
constexpr uint64_t kMostPadding = uint64_t{16} << 20;

// What the kernel calls anonymous memory of huge pages.
constexpr std::string_view kHugePages = "/anon_hugepage";

// "start-end permissions offset device inode   path"
std::optional<Mapping> parse_mapping(const std::string& line) {
  Mapping mapping;
  const char* const last = line.data() + line.size();
  const char* const dash = std::from_chars(line.data(), last, mapping.start, 16).ptr;
  if (dash == last) return std::nullopt;
  const char* const permissions = std::from_chars(dash + 1, last, mapping.end, 16).ptr;
  constexpr ptrdiff_t kPermissions = std::string_view(" r-xp ").size();
  if (last - permissions > kPermissions) {
    mapping.is_code = permissions[3] == 'x';
    std::from_chars(permissions + kPermissions, last, mapping.offset, 16);
  }
  if (const size_t path = line.find_first_of("/["); path != std::string::npos) mapping.path = line.substr(path);
  if (mapping.path.starts_with(kHugePages)) mapping.path.clear();
  return mapping;
}

bool is_elf_file(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;  // a pipe of that name would wait
  char head[4] = {};
  std::ifstream(path, std::ios::binary).read(head, sizeof head);
  return std::string_view(head, sizeof head) ==
         "\x7f"
         "ELF";
}

// What is mapped of one file, from its first byte on.
struct Part {
  Image image;
  uint64_t last_offset = 0;
  bool has_code = false;

  bool goes_on_with(const Mapping& next) const {
    const uint64_t distance = next.start - image.start;
    return next.offset > 0 && next.offset >= last_offset && distance >= next.offset &&
           distance - next.offset <= kMostPadding;
  }
};

std::vector<Part> parts_of(const Mappings& mappings) {
  std::vector<Part> parts;
  std::map<std::string_view, size_t> last_of_file;
  for (const Mapping& one : mappings.all()) {
    if (!one.path.starts_with('/')) continue;
    const auto last = last_of_file.find(one.path);
    if (last != last_of_file.end() && parts[last->second].goes_on_with(one)) {
      Part& part = parts[last->second];
      part.image.end = one.end;
      part.last_offset = one.offset;
      part.has_code = part.has_code || one.is_code;
    } else if (one.offset == 0 || one.is_code) {
      last_of_file[one.path] = parts.size();
      parts.push_back({.image = {.start = one.start, .end = one.end, .path = one.path},
                       .last_offset = one.offset,
                       .has_code = one.is_code});
    }
  }
  return parts;
}

bool has_code_between(const Image& image, const Mappings& mappings) {
  const auto& all = mappings.all();
  for (auto one = std::ranges::lower_bound(all, image.start, {}, &Mapping::start);
       one != all.end() && one->start < image.end; ++one) {
    if (one->is_code) return true;
  }
  return false;
}

}  // namespace

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

std::vector<Image> images_of(const Mappings& mappings) {
  std::vector<Part> parts = parts_of(mappings);
  // Those that surely are images first: the others must not reach into them.
  std::ranges::stable_partition(parts, &Part::has_code);
  std::map<uint64_t, Image> images;  // by start
  for (Part& part : parts) {
    if (!part.has_code && !(has_code_between(part.image, mappings) && is_elf_file(part.image.path))) continue;
    const auto after = images.lower_bound(part.image.start);
    const bool reaches_next = after != images.end() && after->first < part.image.end;
    const bool reaches_last = after != images.begin() && std::prev(after)->second.end > part.image.start;
    if (!reaches_next && !reaches_last) images.emplace_hint(after, part.image.start, std::move(part.image));
  }
  std::vector<Image> all;
  for (auto& [start, image] : images) all.push_back(std::move(image));
  return all;
}

}  // namespace paceline::stacks
