#include "paceline/track/dashboard_address.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "paceline/core/clock.h"
#include "paceline/core/posix/host_name.h"
#include "paceline/core/posix/process_stat.h"
#include "paceline/track/run_id.h"
#include "paceline/track/storage_path.h"

namespace paceline::track {
namespace {

namespace fs = std::filesystem;

std::string folder_in(const std::string& state_directory) {
  return state_directory + "/dashboards";
}

// "TIME_PROCESS_MACHINE"; hidden, with a dot before it, until it is locked.
std::string file_name(Time began, pid_t process) {
  char text[64];
  const auto time = static_cast<long long>(began.time_since_epoch().count());
  std::snprintf(text, sizeof text, "%020lld_%d_", time, static_cast<int>(process));
  return text + host_name();
}

// Of this machine, those that began first come first.
std::vector<fs::path> files_in(const std::string& folder) {
  std::vector<fs::path> files;
  const std::string end_of_own = "_" + host_name();
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().filename().string().ends_with(end_of_own)) files.push_back(entry->path());
  }
  std::ranges::sort(files);
  return files;
}

bool is_hidden(const fs::path& file) {
  return file.filename().string().starts_with('.');
}

// Whoever makes a file locks it at once.
bool is_of_now(const fs::path& file) {
  std::error_code error;
  const fs::file_time_type written = fs::last_write_time(file, error);
  return !error && fs::file_time_type::clock::now() - written < std::chrono::minutes(1);
}

bool is_stopped(const fs::path& file) {
  const std::string name = file.filename().string();
  const std::string process = name.substr(name.find('_') + 1);
  const auto stat = read_process_stat("/proc/" + process.substr(0, process.find('_')));
  return stat && stat->state == 'T';
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
  for (const fs::path& left : files_in(folder)) {
    if (is_hidden(left) && is_of_now(left)) continue;
    if (const Descriptor file = opened(left, O_RDWR); file && !is_served(file)) fs::remove(left, ignored);
  }
  const std::string name = file_name(SystemClock().now(), ::getpid());
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
  for (const fs::path& path : files_in(folder_in(state_directory))) {
    const Descriptor file = opened(path, O_RDONLY);
    if (is_hidden(path) || !is_served(file) || is_stopped(path)) continue;
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
