// How text looks in a terminal: the width of its characters, and what of it may be shown. Pure functions.
#pragma once

#include <string>
#include <string_view>

namespace paceline::track {

/// Columns that UTF-8 text takes: East Asian characters and emoji two, combining ones none. Broken UTF-8 counts one for
/// each byte.
size_t columns_of(std::string_view text);
/// The bytes of the longest beginning of `text` that takes at most `columns`.
size_t bytes_that_fit(std::string_view text, size_t columns);
/// A line of a program's output without what would move the cursor or change the terminal; colours and tabs stay.
std::string without_control(std::string_view line);

}  // namespace paceline::track
