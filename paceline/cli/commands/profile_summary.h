// What the command line says about profiles. Pure.
#pragma once

#include <string>

#include "paceline/core/json.h"
#include "paceline/stacks/profile.h"

namespace paceline::cli {

/// A line for each process, then for each language the functions with most own time and with most time in all.
std::string summary_of(const stacks::Profiles& profiles);
/// The same as numbers: `folder`, `profiles` (without the stacks), `functions`.
Json summary_json(const stacks::Profiles& profiles, const std::string& folder);

/// Whether anybody has looked at the process at all.
bool is_sampled(const stacks::Profile& profile);
/// "rank 1: …"; "" where none has a problem.
std::string first_problem(const stacks::Profiles& profiles);

}  // namespace paceline::cli
