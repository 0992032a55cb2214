#include <chrono>
#include <nlohmann/json.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
#include <vector>

#include "paceline/comm/failure_internal.h"
#include "paceline/comm/first_failure_internal.h"
#include "paceline/core/error.h"
#include "paceline/core/peer_lost.h"

namespace paceline::comm {
namespace {

constexpr const char* kWord = "first_failure";
// Processes of one node hear of the end of another within milliseconds.
constexpr std::chrono::milliseconds kPatience{1000};

struct Seen {
  std::vector<int64_t> missing;
  std::string text;
  bool is_certain = true;  // or else somebody may know more
  bool is_stop = false;    // no failure, but this rank's own end
};

Seen seen_in(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const PeerLost& lost) {
    return {.missing = lost.ranks(), .text = lost.what()};
  } catch (const CollectiveError& error) {
    return {.text = error.what(),
            .is_certain = error.cause() == CollectiveCause::this_rank,
            .is_stop = error.cause() == CollectiveCause::stopped};
  } catch (const std::exception& error) {
    return {.text = cause_of(error), .is_certain = false};
  } catch (...) {
    return {.text = "an unknown error", .is_certain = false};
  }
}

}  // namespace

FirstFailure::FirstFailure(c10::intrusive_ptr<c10d::Store> store, int64_t rank, int64_t world_size)
    : store_(std::move(store)), rank_(rank), world_size_(world_size) {}

FirstFailure::~FirstFailure() = default;

std::exception_ptr FirstFailure::agree(const std::exception_ptr& failure) const {
  const Seen seen = seen_in(failure);
  if (seen.is_stop) return failure;
  try {
    if (!seen.is_certain) {
      try {
        store_->wait({kWord}, kPatience);
      } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch)
      }
    }
    const std::string own = nlohmann::json{{"missing", seen.missing}, {"text", seen.text}}.dump(
        -1, ' ', false, nlohmann::json::error_handler_t::replace);
    const std::string word = store_->compareSet(kWord, std::string(), own);
    return word == own ? failure : as_told(word);
  } catch (const std::exception&) {
    return failure;  // the store is gone too
  }
}

std::exception_ptr FirstFailure::as_told(const std::string& word) const {
  const auto json = nlohmann::json::parse(word);
  const auto missing = json.at("missing").get<std::vector<int64_t>>();
  std::string text = "a collective failed on rank " + std::to_string(rank_) + " of " + std::to_string(world_size_);
  for (size_t i = 0; i < missing.size(); ++i) {
    text += (i > 0                 ? ", "
             : missing.size() == 1 ? " for want of rank "
                                   : " for want of ranks ") +
            std::to_string(missing[i]);
  }
  text += "; the first failure of the group: " + json.at("text").get<std::string>();
  if (missing.empty()) return std::make_exception_ptr(CollectiveError(text, CollectiveCause::other_rank));
  return std::make_exception_ptr(PeerLost(text, missing));
}

}  // namespace paceline::comm
