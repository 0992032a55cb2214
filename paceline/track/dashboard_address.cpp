#include "paceline/track/dashboard_address.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "paceline/track/run_id.h"

namespace paceline::track {
namespace {

std::string file_in(const std::string& state_directory) {
  return state_directory + "/dashboard.address";
}

// Of the whole file. It is asked for without taking it: who looks is in nobody's way.
struct flock whole_file() {
  return {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0, .l_pid = 0};
}

}  // namespace

arrow::Result<DashboardAddress> DashboardAddress::announce(const std::string& state_directory, const std::string& url) {
  std::error_code ignored;  // open() says more
  std::filesystem::create_directories(state_directory, ignored);
  const std::string path = file_in(state_directory);
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return errno_status("cannot write " + path);
  struct flock lock = whole_file();
  if (::fcntl(file.get(), F_OFD_SETLK, &lock) != 0) return DashboardAddress(Descriptor());
  if (::ftruncate(file.get(), 0) != 0 ||
      ::pwrite(file.get(), url.data(), url.size(), 0) != static_cast<ssize_t>(url.size())) {
    return errno_status("cannot write " + path);
  }
  return DashboardAddress(std::move(file));
}

std::optional<std::string> DashboardAddress::find(const std::string& state_directory) {
  const Descriptor file(::open(file_in(state_directory).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct flock lock = whole_file();
  if (!file || ::fcntl(file.get(), F_OFD_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) return std::nullopt;
  std::array<char, 512> text{};
  const ssize_t size = ::pread(file.get(), text.data(), text.size(), 0);
  if (size <= 0) return std::nullopt;
  return std::string(text.data(), static_cast<size_t>(size));
}

std::string run_page(const std::string& url, const std::string& folder) {
  return url + "#/runs/" + run_id(folder);
}

}  // namespace paceline::track
