// The commands of `paceline`, one file each.
//
// Every command adds itself to the program and sets `exit_code` when it has run: 0 done, 1 it could not be done (the
// reason is one line on standard error). Wrong use of the command line is 2.
#pragma once

#include <arrow/status.h>

#include <CLI/CLI.hpp>

namespace paceline::cli {

inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;
inline constexpr int kWrongUse = 2;

/// paceline show RUN_FOLDER [--json]
void add_show(CLI::App& program, int& exit_code);
/// paceline stop RUN_FOLDER
void add_stop(CLI::App& program, int& exit_code);
/// paceline checkpoint verify PATH
void add_checkpoint(CLI::App& program, int& exit_code);

/// Prints the reason of a failure; the exit code that goes with the status.
int report(const arrow::Status& status);

}  // namespace paceline::cli
