#include "paceline/track/dashboard_address.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <sstream>

#include "paceline/track/run_id.h"
#include "paceline/track/storage_path.h"

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

arrow::Result<DashboardAddress> DashboardAddress::announce(const std::string& state_directory, const std::string& url,
                                                           const std::vector<std::string>& storage_paths) {
  std::error_code ignored;  // open() says more
  std::filesystem::create_directories(state_directory, ignored);
  const std::string path = file_in(state_directory);
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return errno_status("cannot write " + path);
  struct flock lock = whole_file();
  if (::fcntl(file.get(), F_OFD_SETLK, &lock) != 0) return DashboardAddress(Descriptor());
  std::string text = url;
  for (const std::string& path : storage_paths) text += "\n" + path;
  if (::ftruncate(file.get(), 0) != 0 ||
      ::pwrite(file.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    return errno_status("cannot write " + path);
  }
  return DashboardAddress(std::move(file));
}

std::optional<std::string> DashboardAddress::find(const std::string& state_directory, const std::string& location) {
  const Descriptor file(::open(file_in(state_directory).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct flock lock = whole_file();
  if (!file || ::fcntl(file.get(), F_OFD_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) return std::nullopt;
  std::array<char, 64 << 10> text{};
  const ssize_t size = ::pread(file.get(), text.data(), text.size(), 0);
  if (size <= 0) return std::nullopt;
  std::istringstream lines(std::string(text.data(), static_cast<size_t>(size)));
  std::string url;
  std::getline(lines, url);
  std::vector<std::string> storage_paths;
  for (std::string path; std::getline(lines, path);) storage_paths.push_back(path);
  return is_below(location, storage_paths) ? std::optional(url) : std::nullopt;
}

std::string run_page(const std::string& url, const std::string& folder) {
  const bool has_code = url.find('#') != std::string::npos;
  return url + (has_code ? "" : "#") + "/runs/" + run_id(folder);
}

}  // namespace paceline::track
