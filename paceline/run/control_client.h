// The command line's side of a live run's control socket.
//
// Errors: IOError "no live run in …" when nobody listens, or when the run ends while it is asked; Cancelled when the
// run lives but does not answer in time.
#pragma once

#include <arrow/result.h>

#include <chrono>
#include <stop_token>
#include <string>
#include <vector>

#include "paceline/core/json.h"
#include "paceline/rpc/messages.h"
#include "paceline/stacks/profile.h"
#include "paceline/stacks/stack.h"

namespace paceline::run {

inline constexpr std::chrono::milliseconds kAnswerTime{5'000};

/// The status of the run that is live in the folder, as status.h describes it.
arrow::Result<Json> request_status(const std::string& run_folder, std::chrono::milliseconds patience = kAnswerTime);
/// Asks the live run to stop; gives its status after that. A third request kills the workers.
arrow::Result<Json> request_stop(const std::string& run_folder, const std::string& reason,
                                 std::chrono::milliseconds patience = kAnswerTime);

/// The stacks of the worker with that rank, or, with -1, of all. Naming a large program's frames takes a while.
arrow::Result<std::vector<stacks::WorkerStacks>> request_stacks(
    const std::string& run_folder, int64_t rank, std::chrono::milliseconds patience = std::chrono::minutes(1));

/// What the workers' time goes into (stacks/profile.h).
struct RunProfile {
  stacks::Profiles profiles;
  std::string folder;   // in the run's, where they are kept
  std::string problem;  // why they are not
};
/// Samples workers as it is wanted, and names what was found: `patience` is for that alone. Timelines are in the
/// folder. Cancelled at once when `given_up` says so; a run that has been asked keeps the profile all the same, and the
/// message says which of the two.
arrow::Result<RunProfile> request_profile(const std::string& run_folder, const rpc::RunProfileRequest& wanted,
                                          const std::stop_token& given_up = {},
                                          std::chrono::milliseconds patience = std::chrono::seconds(90));

/// Asks the train loops of the live run to save a checkpoint (train/session.h, checkpoint_requested()), which they do
/// at one of their next steps. Invalid where they will not, with the reason. `who` asks, for the run's log.
arrow::Status request_checkpoint(const std::string& run_folder, const std::string& who,
                                 std::chrono::milliseconds patience = std::chrono::seconds(10));

/// Asks the live run to write its ranks' last collectives into its folder (collectives.h).
arrow::Status request_collectives(const std::string& run_folder, std::chrono::milliseconds patience = kAnswerTime);

}  // namespace paceline::run
