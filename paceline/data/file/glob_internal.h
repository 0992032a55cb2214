// Globs: patterns for paths, as a shell has them. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace paceline::data {

/// Whether a path has a character that means something in a glob.
bool has_wildcard(std::string_view path);
/// Whether a folder or file of that name is left out where the user has not named it.
bool is_hidden(std::string_view name);
/// "a//b/" → "a", "b".
std::vector<std::string_view> names_of(std::string_view path);
/// Whether the names of a path match those of a pattern; list_files() (files.h) says how.
bool matches(const std::vector<std::string_view>& pattern, const std::vector<std::string_view>& path);

}  // namespace paceline::data
