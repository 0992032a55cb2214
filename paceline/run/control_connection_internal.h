// A connection to the control socket of the run that is live in a folder.
#pragma once

#include <arrow/result.h>

#include <chrono>
#include <stop_token>
#include <string>

#include "paceline/core/posix/descriptor.h"

namespace paceline::run {

/// IOError when nobody listens, Cancelled when nobody accepts within `patience`, or soon after it was given up; the
/// errors say what that means of the run.
arrow::Result<Descriptor> connect_to_run(const std::string& run_folder, std::chrono::milliseconds patience,
                                         const std::stop_token& given_up = {});

/// Cancelled: the run lives and has said nothing within `patience`.
arrow::Status no_answer(const std::string& run_folder, std::chrono::milliseconds patience);

}  // namespace paceline::run
