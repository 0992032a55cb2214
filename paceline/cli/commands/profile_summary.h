// What the command line says about profiles. Pure.
#pragma once

#include <string>

#include "paceline/core/json.h"
#include "paceline/stacks/profile.h"

namespace paceline::cli {

/// A line for each process, then for each language the functions with most own time and with most time in all.
std::string summary_of(const stacks::Profiles& profiles);
/// Of profiles of where threads wait: below each process how long each of its threads waited, wanted a processor and
/// ran. Of threads but the main one that did nothing but wait only the number is told, and the functions are not
/// theirs.
std::string waits_summary_of(const stacks::Profiles& profiles);
/// The same as numbers: `folder`, `profiles` (without the stacks), `functions`.
Json summary_json(const stacks::Profiles& profiles, const std::string& folder);

/// Whether anybody has looked at the process at all.
bool is_sampled(const stacks::Profile& profile);
/// "rank 1: …"; "" where none has a problem.
std::string first_problem(const stacks::Profiles& profiles);

}  // namespace paceline::cli
