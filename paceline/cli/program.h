// The program around the commands: parses the command line, explains wrong use, gives the exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>

namespace paceline::cli {

/// Adds a command to the program; the command sets the exit code when it has run.
using AddCommand = void (*)(CLI::App& program, int& exit_code);

/// Runs the command that the command line names. Wrong use is explained on standard error, with what was probably
/// meant.
int run_program(std::span<const AddCommand> commands, const std::string& version, int argc, const char* const* argv);

}  // namespace paceline::cli
