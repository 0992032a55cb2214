#include "paceline/core/posix/host_name.h"

#include <unistd.h>

#include <array>

namespace paceline {

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace paceline
