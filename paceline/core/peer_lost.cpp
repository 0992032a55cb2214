#include "paceline/core/peer_lost.h"

#include <charconv>

namespace paceline {
namespace {

constexpr std::string_view kForWantOf = " for want of ";

}  // namespace

std::string names_of_ranks(const std::vector<int64_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  return text;
}

std::string for_want_of(const std::vector<int64_t>& missing) {
  return missing.empty() ? "" : std::string(kForWantOf) + names_of_ranks(missing);
}

std::vector<int64_t> ranks_wanted_in(std::string_view text) {
  std::vector<int64_t> ranks;
  const size_t place = text.find(kForWantOf);
  if (place == std::string_view::npos) return ranks;
  text.remove_prefix(place + kForWantOf.size());
  for (const std::string_view word : {"ranks ", "rank "}) {
    if (!text.starts_with(word)) continue;
    text.remove_prefix(word.size());
    while (true) {
      int64_t rank = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
      if (error != std::errc()) return ranks;
      ranks.push_back(rank);
      text.remove_prefix(static_cast<size_t>(end - text.data()));
      if (!text.starts_with(", ")) return ranks;
      text.remove_prefix(2);
    }
  }
  return ranks;
}

}  // namespace paceline
