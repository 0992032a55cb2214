// The name of this machine.
#pragma once

#include <string>

namespace paceline {

/// As the system tells it, "" if it does not.
std::string host_name();

}  // namespace paceline
