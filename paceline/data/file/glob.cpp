#include <algorithm>
#include <cstdint>
#include <span>

#include "paceline/data/file/glob_internal.h"

namespace paceline::data {
namespace {

// Bytes of the UTF-8 character that a text begins with; a byte that begins none counts for itself.
size_t character_size(std::string_view text) {
  const auto first = static_cast<uint8_t>(text.front());
  const size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC0 ? 2 : 1;
  if (size > text.size()) return 1;
  for (size_t i = 1; i < size; ++i) {
    if ((static_cast<uint8_t>(text[i]) & 0xC0) != 0x80) return 1;
  }
  return size;
}

// "[a-z]" → its size with the brackets; 0 for a "[" that none follows, which stands for itself.
size_t set_size(std::string_view pattern) {
  size_t end = 1;
  if (end < pattern.size() && (pattern[end] == '!' || pattern[end] == '^')) ++end;
  if (end < pattern.size() && pattern[end] == ']') ++end;  // at the beginning it is one of the set
  end = pattern.find(']', end);
  return end == std::string_view::npos ? 0 : end + 1;
}

// UTF-8 sorts as its characters do, so that texts can be compared.
bool set_has(std::string_view set, std::string_view character) {
  set = set.substr(1, set.size() - 2);
  const bool is_others = set.starts_with('!') || set.starts_with('^');
  if (is_others) set.remove_prefix(1);
  while (!set.empty()) {
    const std::string_view first = set.substr(0, character_size(set));
    set.remove_prefix(first.size());
    std::string_view last = first;
    if (set.size() > 1 && set.front() == '-') {
      last = set.substr(1, character_size(set.substr(1)));
      set.remove_prefix(1 + last.size());
    }
    if (first <= character && character <= last) return !is_others;
  }
  return is_others;
}

bool name_matches(std::string_view pattern, std::string_view name) {
  // Where to go on if what follows the last "*" does not match: "*" then stands for one character more.
  std::string_view retry_pattern, retry_name;
  bool can_retry = false;
  while (!name.empty() || !pattern.empty()) {
    if (!pattern.empty() && pattern.front() == '*') {
      pattern.remove_prefix(1);
      retry_pattern = pattern;
      retry_name = name;
      can_retry = true;
      continue;
    }
    if (!pattern.empty() && !name.empty()) {
      const std::string_view character = name.substr(0, character_size(name));
      const size_t set = pattern.front() == '[' ? set_size(pattern) : 0;
      if (pattern.front() == '?' || (set > 0 && set_has(pattern.substr(0, set), character))) {
        pattern.remove_prefix(set > 0 ? set : 1);
        name.remove_prefix(character.size());
        continue;
      }
      if (set == 0 && pattern.front() == name.front()) {
        pattern.remove_prefix(1);
        name.remove_prefix(1);
        continue;
      }
    }
    if (!can_retry || retry_name.empty()) return false;
    retry_name.remove_prefix(character_size(retry_name));
    pattern = retry_pattern;
    name = retry_name;
  }
  return true;
}

bool match(std::span<const std::string_view> pattern, std::span<const std::string_view> path) {
  if (pattern.empty()) return path.empty();
  if (pattern.front() == "**") {
    if (match(pattern.subspan(1), path)) return true;
    return !path.empty() && !is_hidden(path.front()) && match(pattern, path.subspan(1));
  }
  if (path.empty()) return false;
  if (has_wildcard(pattern.front().substr(0, 1)) && is_hidden(path.front())) return false;
  return name_matches(pattern.front(), path.front()) && match(pattern.subspan(1), path.subspan(1));
}

}  // namespace

bool has_wildcard(std::string_view path) {
  return path.find_first_of("*?[") != std::string_view::npos;
}

bool is_hidden(std::string_view name) {
  return name.starts_with('.') || name.starts_with('_');
}

std::vector<std::string_view> names_of(std::string_view path) {
  std::vector<std::string_view> names;
  while (!path.empty()) {
    const std::string_view name = path.substr(0, path.find('/'));
    if (!name.empty()) names.push_back(name);
    path.remove_prefix(std::min(name.size() + 1, path.size()));
  }
  return names;
}

bool matches(const std::vector<std::string_view>& pattern, const std::vector<std::string_view>& path) {
  return match(pattern, path);
}

}  // namespace paceline::data
