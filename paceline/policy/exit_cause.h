// Says why a process ended, from what is known of its end, and what to do about it. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/posix/exit_status.h"

namespace paceline::policy {

/// What is known of the end of a worker.
struct ExitFacts {
  ExitStatus status;
  std::optional<CrashFacts> crash;
  MemoryFacts memory;
  std::vector<std::string> last_lines;
};

/// `what` follows the name of the worker ("crashed with SIGSEGV"), `detail` whatever was said since (": it used address
/// 0x10, a null pointer"). `advice` is a sentence without its full stop. Both are "" where there is nothing to say.
struct ExitCause {
  std::string what;
  std::string detail = {};
  std::string advice = {};

  bool operator==(const ExitCause&) const = default;
};

ExitCause decode_exit(const ExitFacts& facts);

/// What to do about an error of the system that `text` (an exception, the last lines of a log) speaks of: full disk,
/// too many open files, no such GPU, … "" when it speaks of none.
std::string advice_on(std::string_view text);

}  // namespace paceline::policy
