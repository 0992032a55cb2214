// What was found when a run hung, as its driver keeps it in the run folder: hang/TIME/.
//
// hang.json is the verdict and how each rank stood; stacks.jsonl has the stacks of all workers, a line of JSON for each
// (stacks/stack.h); report.txt and stacks.txt say the same to people. Earlier drivers kept texts alone, and
// progress.json: of their hangs these are there. It is no part of a run's state: nothing is synced. Errors: IOError;
// KeyError for a hang that is not there.
#pragma once

#include <arrow/result.h>

#include <string>
#include <vector>

#include "paceline/core/record.h"
#include "paceline/policy/hang_detection.h"
#include "paceline/rpc/messages.h"
#include "paceline/stacks/stack.h"

namespace paceline::run {

// How a rank stood.
#define PACELINE_STANDING_RANK_FIELDS(FIELD)                                         \
  FIELD(int64_t, rank, 0)                                                            \
  FIELD(bool, finished, false)              /* its train loop has returned */        \
  FIELD(std::string, standing, "")          /* "waits in all_reduce 812 for 41 s" */ \
  FIELD(rpc::ProcessProgress, progress, {}) /* groups: in which collectives */
PACELINE_RECORD(StandingRank, PACELINE_STANDING_RANK_FIELDS);
using StandingRanks = std::vector<StandingRank>;

// The verdict.
#define PACELINE_FOUND_HANG_FIELDS(FIELD)                                                \
  FIELD(std::string, name, "") /* of its folder in hang/: when */                        \
  FIELD(int64_t, attempt, 0)                                                             \
  FIELD(std::string, text, "")              /* who waits for whom */                     \
  FIELD(std::vector<int64_t>, suspects, {}) /* for whom the others wait, or who hangs */ \
  FIELD(int64_t, witness, -1)               /* whose stack says most; -1: nobody's */    \
  FIELD(bool, certain, true)                                                             \
  FIELD(bool, deadlock, false) /* it could not go on */                                  \
  FIELD(StandingRanks, ranks, {})
PACELINE_RECORD(FoundHang, PACELINE_FOUND_HANG_FIELDS);

using FoundStacks = std::vector<stacks::WorkerStacks>;
// With the stacks; where there are none that can be read, as text.
#define PACELINE_HANG_EVIDENCE_FIELDS(FIELD) \
  FIELD(FoundHang, hang, {})                 \
  FIELD(FoundStacks, workers, {})            \
  FIELD(std::string, stacks, "")
PACELINE_RECORD(HangEvidence, PACELINE_HANG_EVIDENCE_FIELDS);

/// The record of a verdict.
FoundHang found_hang(std::string name, int64_t attempt, const policy::HangVerdict& verdict,
                     const std::vector<policy::RankProgress>& ranks);

/// Writes what is kept; gives the folder. What can be written is, whatever else cannot; then it is the first error.
arrow::Result<std::string> keep_hang(const std::string& run_folder, const HangEvidence& evidence);

/// Names of all hangs of the run, the first first.
std::vector<std::string> hang_names(const std::string& run_folder);
/// The hangs themselves, likewise; without their stacks. A run that has never hung has none.
std::vector<FoundHang> list_hangs(const std::string& run_folder);
/// One of them, by its name.
arrow::Result<HangEvidence> read_hang(const std::string& run_folder, const std::string& name);

}  // namespace paceline::run
