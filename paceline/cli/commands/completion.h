// What can stand next on a command line, for the shells' completion.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace paceline::cli {

struct Completion {
  std::vector<std::string> words;  // commands or options that begin as the last word does
  bool run = false;                // the name of a run may stand there

  bool operator==(const Completion&) const = default;
};

/// `words`: what stands behind "paceline", the word to be completed last ("" for a new one). Nothing where a file or a
/// value is wanted. Pure.
Completion complete(const CLI::App& program, const std::vector<std::string>& words);

/// The first word behind "paceline" with which a shell's script asks; what stands behind it is complete()'s `words`.
inline constexpr const char* kCompletionRequest = "__complete";
/// Prints what can stand next, a candidate a line; the exit code.
int answer_completion(const CLI::App& program, const std::vector<std::string>& words);

/// The script that a shell reads: "bash" or "zsh".
std::string completion_script(const std::string& shell);

}  // namespace paceline::cli
