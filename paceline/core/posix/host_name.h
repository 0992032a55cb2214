// The name of this machine.
#pragma once

#include <string>

namespace paceline {

/// As the system reports it; "" when it does not.
std::string host_name();

}  // namespace paceline
