#include "paceline/core/posix/descriptor_limit.h"

#include <sys/resource.h>
#include <cerrno>

#include <algorithm>
#include <filesystem>

#include "paceline/core/posix/descriptor.h"

namespace paceline {

arrow::Status reserve_descriptors(int64_t more) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return errno_status("reading the limit of open files");
  std::error_code error;
  const std::filesystem::directory_iterator descriptors("/proc/self/fd", error);
  // Where they cannot even be listed, all that may be open is.
  const auto open = error ? static_cast<int64_t>(limit.rlim_cur) : std::distance(descriptors, {});
  const auto wanted = static_cast<rlim_t>(open + more);
  if (wanted <= limit.rlim_cur) return arrow::Status::OK();
  if (wanted > limit.rlim_max) {
    return arrow::Status::IOError(
        "too many open files: this process has ", open, " and wants ", more, " more, but may have ", limit.rlim_max,
        " (its hard limit); raise it with `ulimit -n ", 2 * wanted, "` before the program starts");
  }
  limit.rlim_cur = std::min(limit.rlim_max, 2 * wanted);  // not at every call
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return errno_status("raising the limit of open files");
  return arrow::Status::OK();
}

bool is_lack_of_descriptors(int error) {
  return error == EMFILE || error == ENFILE;
}

arrow::Status make_room_for_descriptor(int error) {
  if (error == EMFILE) return reserve_descriptors(1);
  return arrow::Status::IOError("all files that this machine may have open are; raise its limit (sysctl fs.file-max)");
}

void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace paceline
