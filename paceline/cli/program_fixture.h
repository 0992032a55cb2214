// Runs the program `paceline` for tests.
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

namespace paceline::cli {

struct Outcome {
  int exit_code = -1;
  std::string output;  // both streams
};

/// A shell's command line.
inline Outcome run_command_line(const std::string& command) {
  std::FILE* pipe =
      ::popen((command + " 2>&1").c_str(), "r");  // NOLINT(bugprone-command-processor): a test's own words
  Outcome outcome;
  std::array<char, 4096> buffer;
  for (size_t count; (count = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    outcome.output.append(buffer.data(), count);
  }
  const int status = ::pclose(pipe);
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  return outcome;
}

inline Outcome run_program(const std::string& arguments) {
  return run_command_line(PACELINE_PROGRAM " " + arguments);
}

}  // namespace paceline::cli
