// The variables of this process, and which of them its children have.
#pragma once

#include <map>
#include <string>

namespace paceline {

/// Sets a variable for this process alone: child_environment() leaves it out. Nothing happens where it is set already.
/// Only before there are other threads.
void set_own_variable(const char* name, const char* value);

/// This process's variables by name, without those that are its own alone. Any thread, while nobody sets variables.
std::map<std::string, std::string> child_environment();

}  // namespace paceline
