// "Did you mean …?": the known word that is nearest to one that is unknown. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline {

/// Edits that make one word of the other: insertions, deletions, replacements and swaps of two neighbours, each 1
/// (Damerau-Levenshtein, restricted; R. A. Wagner and R. Lowrance, 1975, for the swaps).
size_t edit_distance(std::string_view from, std::string_view to);

/// The nearest of `known`, the first of equals; nullopt when even that one has little in common with `word`: more
/// edits than a third of the longer word's letters. Where `word` begins exactly one known word, that one.
std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& known);

/// "; did you mean \"show\"?", or "" when nothing is near.
std::string suggestion(std::string_view word, const std::vector<std::string>& known);

}  // namespace paceline
