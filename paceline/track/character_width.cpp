#include "paceline/track/character_width.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>

namespace paceline::track {
namespace {

struct Range {
  uint32_t first;
  uint32_t last;
};

// Unicode's East_Asian_Width W and F, and the blocks of emoji, as terminals have them (after Markus Kuhn's wcwidth).
constexpr std::array kWide = {
    Range{0x1100, 0x115F},   Range{0x231A, 0x231B},   Range{0x2329, 0x232A},   Range{0x23E9, 0x23EC},
    Range{0x25FD, 0x25FE},   Range{0x2614, 0x2615},   Range{0x2648, 0x2653},   Range{0x26A1, 0x26A1},
    Range{0x2705, 0x2705},   Range{0x2728, 0x2728},   Range{0x274C, 0x274C},   Range{0x2B50, 0x2B50},
    Range{0x2E80, 0x303E},   Range{0x3041, 0xA4CF},   Range{0xA960, 0xA97C},   Range{0xAC00, 0xD7A3},
    Range{0xF900, 0xFAFF},   Range{0xFE30, 0xFE6F},   Range{0xFF00, 0xFF60},   Range{0xFFE0, 0xFFE6},
    Range{0x1F300, 0x1F64F}, Range{0x1F680, 0x1F6FF}, Range{0x1F900, 0x1F9FF}, Range{0x20000, 0x3FFFD}};
constexpr std::array kNoWidth = {Range{0x0300, 0x036F}, Range{0x0483, 0x0489}, Range{0x0591, 0x05BD},
                                 Range{0x1AB0, 0x1AFF}, Range{0x1DC0, 0x1DFF}, Range{0x200B, 0x200F},
                                 Range{0x20D0, 0x20FF}, Range{0xFE00, 0xFE0F}, Range{0xFE20, 0xFE2F}};

template <class Ranges>
bool is_in(uint32_t code, const Ranges& ranges) {
  return std::ranges::any_of(ranges, [code](const Range& range) { return code >= range.first && code <= range.last; });
}

struct Character {
  uint32_t code = 0;
  size_t bytes = 1;
  bool is_broken = false;
};

// The shortest form of a code up to U+10FFFF that is no half of a UTF-16 pair.
bool is_proper(uint32_t code, size_t bytes) {
  constexpr std::array<uint32_t, 5> kFirst = {0, 0, 0x80, 0x800, 0x10000};  // of so many bytes
  return code >= kFirst.at(bytes) && code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
}

Character character_at(std::string_view text, size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 0x80) return {byte, 1};
  const Character broken{.code = byte, .bytes = 1, .is_broken = true};
  const size_t bytes = byte >= 0xF8 ? 0 : byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 0;
  if (bytes == 0 || at + bytes > text.size()) return broken;
  uint32_t code = byte & (0xFFu >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) {
    const auto next = static_cast<unsigned char>(text[at + i]);
    if ((next & 0xC0) != 0x80) return broken;
    code = code << 6 | (next & 0x3F);
  }
  return is_proper(code, bytes) ? Character{code, bytes} : broken;
}

// A broken byte in the range of U+0080 to U+009F counts: an 8-bit terminal obeys it.
bool is_control(uint32_t code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0);
}

void add_escaped(std::string_view bytes, std::string& text) {
  for (const char byte : bytes) {
    if (byte == '\n' || byte == '\t') {
      text += byte == '\n' ? "\\n" : "\\t";
      continue;
    }
    std::array<char, 8> escaped{};
    std::snprintf(escaped.data(), escaped.size(), "\\x%02x", static_cast<unsigned char>(byte));
    text += escaped.data();
  }
}

size_t width_of(uint32_t code) {
  if (code < 0x300) return 1;
  return is_in(code, kNoWidth) ? 0 : is_in(code, kWide) ? 2 : 1;
}

// The bytes of the escape sequence that begins at `at`, by ECMA-48.
size_t escape_bytes(std::string_view text, size_t at) {
  if (at + 1 >= text.size()) return 1;
  size_t end = at + 2;
  if (text[at + 1] == '[') {
    while (end < text.size() && (text[end] < 0x40 || text[end] > 0x7E)) ++end;
    return std::min(end + 1, text.size()) - at;
  }
  if (text[at + 1] == ']') {  // up to BEL, or ESC and a backslash
    while (end < text.size() && text[end] != '\a' && text[end] != '\x1b') ++end;
    const size_t closing = end < text.size() && text[end] == '\x1b' ? 2 : 1;
    return std::min(end + closing, text.size()) - at;
  }
  return 2;
}

}  // namespace

size_t columns_of(std::string_view text) {
  size_t columns = 0;
  for (size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    columns += width_of(character.code);
    at += character.bytes;
  }
  return columns;
}

size_t bytes_that_fit(std::string_view text, size_t columns) {
  size_t at = 0;
  while (at < text.size()) {
    const Character character = character_at(text, at);
    const size_t width = width_of(character.code);
    if (width > columns) break;
    columns -= width;
    at += character.bytes;
  }
  return at;
}

std::string printable(std::string_view text) {
  const bool plain = std::ranges::all_of(text, [](char c) { return c >= 0x20 && c < 0x7F; });
  if (plain) return std::string(text);  // nearly every cell of a long table
  std::string safe;
  for (size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    const std::string_view bytes = text.substr(at, character.bytes);
    if (character.is_broken || is_control(character.code)) {
      add_escaped(bytes, safe);
    } else {
      safe += bytes;
    }
    at += character.bytes;
  }
  return safe;
}

std::string in_ascii(std::string_view text) {
  std::string shown;
  for (size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    shown += character.code < 0x80 ? text[at] : '?';
    at += character.bytes;
  }
  return shown;
}

std::string without_control(std::string_view line, Colours colours) {
  std::string shown;
  bool has_colour = false;
  for (size_t at = 0; at < line.size();) {
    if (line[at] == 0x1B) {
      const size_t bytes = escape_bytes(line, at);
      const std::string_view sequence = line.substr(at, bytes);
      if (colours == Colours::kept && sequence.starts_with("\x1b[") && sequence.ends_with('m')) {
        shown += sequence;
        has_colour = true;
      }
      at += bytes;
      continue;
    }
    const Character character = character_at(line, at);
    if (line[at] == '\t' || !is_control(character.code)) shown += line.substr(at, character.bytes);
    at += character.bytes;
  }
  return has_colour ? shown + "\x1b[0m" : shown;
}

}  // namespace paceline::track
