// The error that a user reads, made from failures: which rank and node, what happened, the last lines of its log, where
// the rest is. Pure functions.
//
// The same error on many ranks is shown once with the ranks (numbers and addresses may differ). Long texts keep both
// ends. The cause comes first; collateral failures follow it in one line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/policy/state.h"

namespace paceline::policy {

/// The whole message for a group of `world_size` that ended with `failures`, which are in the order of their arrival.
std::string error_text(const std::vector<Failure>& failures, int64_t world_size);
/// Its cause in one line, for the log: "rank 1 of 2 on node a was killed by SIGKILL in step 12 (backward)".
std::string cause_line(const std::vector<Failure>& failures, int64_t world_size);
/// What an error_text() says beyond its cause_line(), for those who have been shown that: its details and consequences.
/// All of it where the line shows the cause shortened; "" where there is nothing else.
std::string beyond_cause_line(const std::string& error);
/// The kind of the failure that both begin with; nothing without failures.
std::optional<FailureKind> cause_kind(const std::vector<Failure>& failures);
/// Each rank's own error; what concerns the whole group is under rank -1. Ranks that only lost a peer are left out
/// where a rank is the cause: whether they notice before they are stopped is chance.
RankErrors errors_by_rank(const std::vector<Failure>& failures, int64_t world_size);

/// `text` with '#' for each number and address, so that texts can be compared: "shape [#, #] at #".
std::string without_numbers(std::string_view text);
/// "0, 2-5" from ascending numbers.
std::string ranges_text(const std::vector<int64_t>& numbers);
/// "rank 3", "ranks 0, 2-5"; of very many the two ends.
std::string ranks_text(const std::vector<int64_t>& ranks);
/// "60 s", "0.25 s".
std::string seconds_text(double seconds);
/// `text`, or its two ends with a note of what is left out when it is longer than `limit` bytes.
std::string shortened(std::string_view text, size_t limit);

}  // namespace paceline::policy
