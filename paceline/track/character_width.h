// How text looks in a terminal: the width of its characters, and what of it may be shown. Pure functions.
//
// A character is a sequence of UTF-8 as Unicode has it; every other byte is broken, and stands for itself alone.
// Control characters are those of ASCII and U+0080 to U+009F, which 8-bit terminals obey as they do ESC and a letter.
#pragma once

#include <string>
#include <string_view>

namespace paceline::track {

/// Columns that UTF-8 text takes: East Asian characters and emoji two, combining ones none. Broken UTF-8 counts one for
/// each byte.
size_t columns_of(std::string_view text);
/// The bytes of the longest beginning of `text` that takes at most `columns`.
size_t bytes_that_fit(std::string_view text, size_t columns);
/// `text` without what a terminal would obey: control characters and bytes that are not UTF-8 become "\n", "\x1b", ….
std::string printable(std::string_view text);
/// `text` for a terminal that shows ASCII alone: "?" in the place of every other character.
std::string in_ascii(std::string_view text);

enum class Colours { kept, dropped };
/// A line of a program's output without what would move the cursor or change the terminal. Tabs stay, and broken bytes
/// that no terminal obeys: letters of Latin-1.
std::string without_control(std::string_view line, Colours colours = Colours::kept);

}  // namespace paceline::track
