#include "paceline/core/spelling.h"

#include <algorithm>

namespace paceline {

size_t edit_distance(std::string_view from, std::string_view to) {
  // Rows of the table of distances between beginnings: the one at hand and the two before it.
  std::vector<size_t> two_before(to.size() + 1), before(to.size() + 1), row(to.size() + 1);
  for (size_t j = 0; j <= to.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= from.size(); ++i) {
    std::swap(two_before, before);
    std::swap(before, row);
    row[0] = i;
    for (size_t j = 1; j <= to.size(); ++j) {
      const size_t replaced = before[j - 1] + (from[i - 1] == to[j - 1] ? 0 : 1);
      row[j] = std::min({before[j] + 1, row[j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1];
      if (swapped) row[j] = std::min(row[j], two_before[j - 2] + 1);
    }
  }
  return row[to.size()];
}

std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& known) {
  std::vector<std::string> longer;
  std::ranges::copy_if(known, std::back_inserter(longer),
                       [&](const std::string& one) { return one.starts_with(word); });
  if (longer.size() == 1 && !word.empty()) return longer.front();
  std::optional<std::string> best;
  size_t least = 0;
  for (const std::string& one : known) {
    const size_t distance = edit_distance(word, one);
    if (3 * distance > std::max(word.size(), one.size())) continue;
    if (best && distance >= least) continue;
    best = one;
    least = distance;
  }
  return best;
}

std::string suggestion(std::string_view word, const std::vector<std::string>& known) {
  const std::optional<std::string> near = nearest(word, known);
  return near ? "; did you mean \"" + *near + "\"?" : "";
}

}  // namespace paceline
