// paceline run [FLAGS] [--] PROGRAM [ARGUMENTS]
//
// Its command line is torchrun's, which CLI11 cannot read: everything behind the program belongs to the program.
#pragma once

#include <string>
#include <vector>

namespace paceline::cli {

/// Runs the command with what stands behind "run"; gives the exit code. Must be called while there is one thread.
int run_command(const std::vector<std::string>& arguments);

}  // namespace paceline::cli
