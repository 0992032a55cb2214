#include "paceline/core/posix/process_title.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cstdint>

#include "paceline/core/posix/process_stat.h"

namespace paceline {

arrow::Status set_process_title(const std::string& title) {
  const auto stat = read_process_stat("/proc/self");
  if (!stat || stat->arguments_start <= 0 || stat->arguments_end <= stat->arguments_start)
    return arrow::Status::IOError("/proc/self/stat does not say where the arguments are");
  const auto first = static_cast<uintptr_t>(stat->arguments_start);
  char* const arguments = reinterpret_cast<char*>(first);  // NOLINT(performance-no-int-to-ptr): the kernel's own words
  const auto room = static_cast<size_t>(stat->arguments_end - stat->arguments_start);
  const size_t length = std::min(title.size(), room - 1);
  std::fill(std::copy_n(title.data(), length, arguments), arguments + room, '\0');
  ::prctl(PR_SET_NAME, title.c_str());
  return arrow::Status::OK();
}

}  // namespace paceline
