// Which build a program is: the linker's note of it, which two links of different code never share.
#pragma once

#include <string>

namespace paceline {

/// Of the executable of this process, in hexadecimal; "" where it was linked without one (--build-id=none).
std::string build_id_of_program();

}  // namespace paceline
