#include "paceline/track/dashboard_address.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <sstream>

#include "paceline/core/clock.h"
#include "paceline/track/run_id.h"
#include "paceline/track/storage_path.h"

namespace paceline::track {
namespace {

namespace fs = std::filesystem;

std::string folder_in(const std::string& state_directory) {
  return state_directory + "/dashboards";
}

// By their names, which begin with the time: those that began first come first. Others than dashboards' files, which
// are hidden until they are locked, are left out.
std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (!entry->path().filename().string().starts_with('.')) files.push_back(entry->path());
  }
  std::ranges::sort(files);
  return files;
}

// Of the whole file. It is asked for without taking it: who looks is in nobody's way.
struct flock whole_file() {
  return {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0, .l_pid = 0};
}

bool is_served(const Descriptor& file) {
  struct flock lock = whole_file();
  return file && ::fcntl(file.get(), F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

Descriptor opened(const std::string& path, int how) {
  return Descriptor(::open(path.c_str(), how | O_CLOEXEC | O_NOFOLLOW, 0600));
}

}  // namespace

arrow::Result<DashboardAddress> DashboardAddress::announce(const std::string& state_directory, const std::string& url,
                                                           const std::vector<std::string>& storage_paths) {
  const std::string folder = folder_in(state_directory);
  std::error_code ignored;  // open() says more
  fs::create_directories(folder, ignored);
  for (const std::string& left : files_in(folder)) {
    if (const Descriptor file = opened(left, O_RDWR); file && !is_served(file)) fs::remove(left, ignored);
  }
  char name[64];
  const auto now = static_cast<long long>(SystemClock().now().time_since_epoch().count());
  std::snprintf(name, sizeof name, "%020lld_%d", now, static_cast<int>(::getpid()));
  const std::string path = folder + "/" + name, hidden = folder + "/." + name;
  Descriptor file = opened(hidden, O_RDWR | O_CREAT | O_EXCL);
  if (!file) return errno_status("cannot write " + hidden);
  std::string text = url;
  for (const std::string& shown : storage_paths) text += "\n" + shown;
  struct flock lock = whole_file();
  if (::fcntl(file.get(), F_OFD_SETLK, &lock) != 0 ||
      ::pwrite(file.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()) ||
      ::rename(hidden.c_str(), path.c_str()) != 0) {
    const arrow::Status status = errno_status("cannot write " + path);
    ::unlink(hidden.c_str());
    return status;
  }
  return DashboardAddress(std::move(file), path);
}

DashboardAddress::~DashboardAddress() {
  if (file_) ::unlink(path_.c_str());
}

std::optional<std::string> DashboardAddress::find(const std::string& state_directory, const std::string& location) {
  for (const std::string& path : files_in(folder_in(state_directory))) {
    const Descriptor file = opened(path, O_RDONLY);
    if (!is_served(file)) continue;
    std::array<char, 64 << 10> text{};
    const ssize_t size = ::pread(file.get(), text.data(), text.size(), 0);
    if (size <= 0) continue;
    std::istringstream lines(std::string(text.data(), static_cast<size_t>(size)));
    std::string url;
    std::getline(lines, url);
    std::vector<std::string> storage_paths;
    for (std::string shown; std::getline(lines, shown);) storage_paths.push_back(shown);
    if (is_below(location, storage_paths)) return url;
  }
  return std::nullopt;
}

std::string run_page(const std::string& url, const std::string& folder) {
  const bool has_code = url.find('#') != std::string::npos;
  return url + (has_code ? "" : "#") + "/runs/" + run_id(folder);
}

}  // namespace paceline::track
