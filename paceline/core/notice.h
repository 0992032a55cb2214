// A line for people that is no error: what goes on although it may not be what was meant.
#pragma once

#include <string>

namespace paceline {

/// Writes "paceline: TEXT" to standard error, in one piece. Thread-safe.
void notice(const std::string& text);
/// The same, once in this process for each text.
void notice_once(const std::string& text);

}  // namespace paceline
