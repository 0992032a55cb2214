// Profiles that were taken of a run, as its driver keeps them in the run folder: profiles/TIME/ (core/run_layout.h).
//
// Such a folder has a line of JSON per process (stacks/profile.h), all of them for speedscope, or the operator
// timelines of the ranks, and a note of what the profile is, so that a list of profiles reads no samples. What an
// earlier version has kept has no note: its place takes what the samples tell. Names are looked up among what is there,
// and nothing is opened through a link: no name leads out of the run's folder. Thread-safe: no state. Errors: IOError.
#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "paceline/core/clock.h"
#include "paceline/core/record.h"
#include "paceline/rpc/messages.h"
#include "paceline/stacks/profile.h"

namespace paceline::run {

using SamplesByLanguage = std::map<std::string, int64_t>;

// One kept profile. Times are seconds since the Unix epoch.
#define PACELINE_KEPT_PROFILE_FIELDS(FIELD)                                  \
  FIELD(std::string, name, "") /* of its folder */                           \
  FIELD(std::string, kind, rpc::kCpuProfile)                                 \
  FIELD(double, time, 0.0)    /* when it was asked for */                    \
  FIELD(std::string, who, "") /* asked for it; "" where that was not kept */ \
  FIELD(int64_t, rank, -1)    /* that was asked for; -1: all */              \
  FIELD(double, seconds, 0.0) /* for which the processes were sampled */     \
  FIELD(std::vector<int64_t>, ranks, {})                                     \
  FIELD(SamplesByLanguage, samples, {})                                      \
  FIELD(std::vector<std::string>, problems, {}) /* what is missing, whose, and why */
PACELINE_RECORD(KeptProfile, PACELINE_KEPT_PROFILE_FIELDS);

/// "2026-11-21T08:05:09.123Z"
std::string profile_name(Time asked);
/// When it was asked for, to the millisecond, in seconds since the Unix epoch; 0 for another name.
double time_of_profile(const std::string& name);

/// Adds what the samples tell of it: seconds, ranks, numbers of samples, problems. Pure.
KeptProfile described(KeptProfile profile, const stacks::Profiles& taken);

/// Operator timelines, in Chrome's format and compressed (gzip), by rank.
using Timelines = std::map<int64_t, std::string>;

/// Writes the profile into its folder, which is new; the note at last.
arrow::Status keep_profile(const std::string& run_folder, const KeptProfile& profile, const stacks::Profiles& taken,
                           const Timelines& timelines, const std::string& run_name);

/// A run keeps so many profiles, of so many bytes together.
struct ProfileLimits {
  size_t most = 100;
  int64_t most_bytes = int64_t{1} << 30;
};
/// Removes the run's oldest profiles until the others are within the limits; never the one with the name `newest`, and
/// none whose folder has a file `pinned` (run_layout::kPinnedProfile).
arrow::Status prune_profiles(const std::string& run_folder, const std::string& newest, ProfileLimits limits = {});

/// Those of a run, the last first. What cannot be read is left out.
arrow::Result<std::vector<KeptProfile>> list_kept_profiles(const std::string& run_folder);

struct ReadProfile {
  KeptProfile profile;
  stacks::Profiles taken;
};
/// KeyError when the run has no such profile.
arrow::Result<ReadProfile> read_kept_profile(const std::string& run_folder, const std::string& name);

/// The timeline of a rank in that profile. KeyError when there is none.
arrow::Result<std::string> read_timeline(const std::string& run_folder, const std::string& name, int64_t rank);

/// Of a larger file, nothing is read.
inline constexpr int64_t kMostProfileBytes = int64_t{512} << 20;

}  // namespace paceline::run
