// What PyTorch in Python computes: the oracle of tests that promise the same numbers.
//
// A script beside the test prints one JSON value; the build passes the interpreter as PACELINE_PYTHON and the source
// folder as PACELINE_SOURCE_FOLDER. Without an interpreter that has torch (a LibTorch archive) such tests skip
// themselves.
#pragma once

#include <array>
#include <cstdio>
#include <optional>
#include <string>

#include "paceline/core/json.h"

namespace paceline::testing {

/// The JSON that `script` (relative to the source folder) prints; nullopt when it cannot run.
inline std::optional<Json> python_reference(const std::string& script) {
  const std::string command =
      std::string("OMP_NUM_THREADS=1 '") + PACELINE_PYTHON + "' '" + PACELINE_SOURCE_FOLDER + "/" + script + "'";
  FILE* pipe = popen(command.c_str(), "r");  // NOLINT(bugprone-command-processor): a command of the build's own
  if (pipe == nullptr) return std::nullopt;
  std::string text;
  std::array<char, 1 << 16> portion;
  while (const size_t count = fread(portion.data(), 1, portion.size(), pipe)) text.append(portion.data(), count);
  if (pclose(pipe) != 0) return std::nullopt;
  return Json::parse(text);
}

}  // namespace paceline::testing
