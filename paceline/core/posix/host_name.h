// What identifies this machine.
#pragma once

#include <string>

namespace paceline {

/// As the system reports it; "" when it does not.
std::string host_name();
/// Of the machine since it was started last: another after each start; "" when the system does not tell.
std::string boot_id();
/// Of the processes that this one sees: containers have one each; "" when the system does not tell.
std::string pid_namespace();

}  // namespace paceline
