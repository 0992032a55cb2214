// What people ask of a live run: to stop, for a checkpoint, for the stacks or a profile of its workers.
//
// Each asks the run's driver and waits for its answer; errors of the connection are those of run/control_client.h.
// `who` is who asks, for the controller's log. Thread-safe: no state.
#pragma once

#include <arrow/result.h>

#include <stop_token>
#include <string>
#include <vector>

#include "paceline/rpc/messages.h"
#include "paceline/run/control_client.h"
#include "paceline/run/kept_profiles.h"
#include "paceline/track/run_record.h"

namespace paceline::views {

/// Asks it to stop; gives its status after that. Invalid when it is over.
arrow::Result<Json> stop_run(const track::RunRow& run, const std::string& who);

/// Asks its train loops for a checkpoint. Invalid when it is over, and where they save none, with the reason.
arrow::Status ask_run_for_checkpoint(const track::RunRow& run, const std::string& who);

/// What every thread of its workers is doing; of one rank, or with -1 of all. Invalid when the run is over; KeyError
/// when no worker has that rank now.
arrow::Result<std::vector<stacks::WorkerStacks>> stacks_of_run(const track::RunRow& run, int64_t rank);

/// Samples its workers as it is wanted, until `given_up`: all that was found, at least of one worker. Invalid when the
/// run is over; KeyError when no worker lives, or none has that rank now.
arrow::Result<run::RunProfile> ask_run_for_profile(const track::RunRow& run, const rpc::RunProfileRequest& wanted,
                                                   const std::stop_token& given_up = {});
/// The same as pages list it. `name` is "" where it could not be kept, and the problems say why. ExecutionError, too,
/// when none could be sampled, with what they said.
arrow::Result<run::KeptProfile> take_profile(const track::RunRow& run, const rpc::RunProfileRequest& wanted,
                                             const std::stop_token& given_up = {});

}  // namespace paceline::views
