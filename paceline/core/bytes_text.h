// Sizes as people read them. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>

namespace paceline {

/// "512 B", "3.2 MiB", "146 GiB": in units of 1024, which the limits of memory and /dev/shm are set in.
std::string bytes_text(int64_t bytes);

}  // namespace paceline
