#include <algorithm>
#include <nlohmann/json.hpp>

#include "paceline/collective/peers.h"
#include "paceline/comm/failure_internal.h"
#include "paceline/comm/nodes/first_failure_internal.h"
#include "paceline/core/error.h"
#include "paceline/core/peer_lost.h"

namespace paceline::comm {

namespace {

constexpr const char* kMissing = "missing";
constexpr const char* kText = "text";

}  // namespace

std::string FirstFailure::encode(size_t most_bytes) const {
  std::string shown = text;
  std::vector<int64_t> ranks = missing;
  while (true) {
    std::string word = nlohmann::json{{kMissing, ranks}, {kText, shown}}.dump(-1, ' ', false,
                                                                              nlohmann::json::error_handler_t::replace);
    if (word.size() <= most_bytes || (shown.empty() && ranks.empty())) return word;
    if (shown.empty()) ranks.pop_back();
    shown.resize(shown.size() - std::min(shown.size(), word.size() - most_bytes));
  }
}

arrow::Result<FirstFailure> FirstFailure::decode(std::string_view word) {
  const auto json = nlohmann::json::parse(word, nullptr, /*allow_exceptions=*/false);
  const bool is_one = json.is_object() && json.contains(kMissing) && json[kMissing].is_array() &&
                      std::ranges::all_of(json[kMissing], [](const auto& rank) { return rank.is_number_integer(); }) &&
                      json.contains(kText) && json[kText].is_string();
  if (!is_one) return arrow::Status::Invalid("no word of a failure: ", word);
  return FirstFailure{.missing = json[kMissing].get<std::vector<int64_t>>(), .text = json[kText].get<std::string>()};
}

std::exception_ptr FirstFailure::as_thrown() const {
  if (missing.empty()) return std::make_exception_ptr(CollectiveError(text, CollectiveCause::other_rank));
  return std::make_exception_ptr(PeerLost(text, missing));
}

std::exception_ptr FirstFailure::as_told(int64_t rank, int64_t world_size) const {
  std::vector<int64_t> others = missing;
  const bool is_missing = std::erase(others, rank) > 0;
  std::string told =
      "a collective failed on rank " + std::to_string(rank) + " of " + std::to_string(world_size) + for_want_of(others);
  if (is_missing) told += ": the others wait for this rank no more";
  told += "; the first failure of the group: " + text;
  return FirstFailure{.missing = others, .text = told}.as_thrown();
}

FirstFailure first_failure_in(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const collective::PeerLate& late) {
    return {.missing = late.ranks(), .text = late.what(), .is_certain = false};
  } catch (const PeerLost& lost) {
    return {.missing = lost.ranks(), .text = lost.what()};
  } catch (const CollectiveError& error) {
    return {.text = error.what(), .is_certain = error.cause() == CollectiveCause::this_rank};
  } catch (const std::exception& error) {
    return {.text = cause_of(error), .is_certain = false};
  } catch (...) {
    return {.text = "an unknown error", .is_certain = false};
  }
}

}  // namespace paceline::comm
