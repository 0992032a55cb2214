// The last collectives of a run's ranks, as its driver keeps them in the run folder: collectives/attempt_A/rank_R.
//
// A file is a pickle as PyTorch's flight recorder dumps it, so that its tools (torch.distributed.flight_recorder) read
// the folder of an attempt. It is written when a worker has ended, however it ended, and when the command line asks a
// live run. Those of the last kAttemptsKept attempts stay; a file has CollectiveLedger::kRecords collectives at most.
// Errors: IOError.
#pragma once

#include <arrow/result.h>

#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/collective_ledger.h"
#include "paceline/core/ids.h"

namespace paceline::run {

inline constexpr int64_t kAttemptsKept = 4;

/// Of one rank.
struct KeptCollectives {
  int64_t rank = 0;
  int64_t world_size = 1;
  bool has_ended = false;  // its worker had, when they were taken
  LedgerReading reading;
};

/// As PyTorch's flight recorder has it, and back. Invalid where the bytes are of something else.
std::string encode_flight_recording(const KeptCollectives& kept);
arrow::Result<KeptCollectives> decode_flight_recording(std::string_view bytes);

/// Takes the place of what was kept of that rank in that attempt before. Not synced: it is no part of a run's state.
arrow::Status keep_collectives(const std::string& run_folder, Attempt attempt, const KeptCollectives& kept);

struct CollectivesOfAttempt {
  Attempt attempt;                     // 0: none has any
  std::vector<KeptCollectives> ranks;  // by rank
};

/// Of the last attempt that has any. A run may have none: its workers have noted none, or none has ended yet.
arrow::Result<CollectivesOfAttempt> read_kept_collectives(const std::string& run_folder);

}  // namespace paceline::run
