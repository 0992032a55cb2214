// Says why a process ended, from what is known of its end, and what to do about it. Pure.
#pragma once

#include <string>
#include <string_view>

#include "paceline/core/posix/process_end.h"

namespace paceline::policy {

/// `what` follows the name of the worker ("crashed with SIGSEGV"), `detail` whatever was said since (": it used address
/// 0x10, a null pointer"). `advice` is a sentence without its full stop. Both are "" where there is nothing to say.
struct ExitCause {
  std::string what;
  std::string detail = {};
  std::string advice = {};

  bool operator==(const ExitCause&) const = default;
};

ExitCause decode_exit(const ProcessEnd& end);

/// What to do about an error of the system that `text` (an exception, the last lines of a log) speaks of: full disk,
/// too many open files, no such GPU, … "" when it speaks of none.
std::string advice_on(std::string_view text);

}  // namespace paceline::policy
