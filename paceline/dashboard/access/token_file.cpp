#include "paceline/dashboard/access/token_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <utility>

#include "paceline/core/posix/descriptor.h"
#include "paceline/transport/trust.h"

namespace paceline::dashboard {
namespace {

constexpr size_t kLeast = 32, kMost = 1024;  // bytes of a token, that a user may have chosen

// Whole, or not at all: whoever finds the file finds a token in it. False where another has made it meanwhile.
arrow::Result<bool> make_token(const std::string& path) {
  ARROW_ASSIGN_OR_RAISE(const std::string token, transport::random_id());
  const std::string line = token + "\n";
  std::string beside = path + ".XXXXXX";
  const Descriptor file(::mkostemp(beside.data(), O_CLOEXEC));  // its user's alone
  if (!file) return errno_status("making " + path);
  const bool is_written = ::write(file.get(), line.data(), line.size()) == std::ssize(line) && ::fsync(file.get()) == 0;
  const bool is_there = is_written && ::link(beside.c_str(), path.c_str()) == 0;
  const int problem = errno;
  ::unlink(beside.c_str());
  if (is_there) return true;
  errno = problem;
  if (is_written && problem == EEXIST) return false;
  return errno_status("writing " + path);
}

// Nothing where there is no file, or one without anything in it, as an earlier version left it on a full disk.
arrow::Result<std::optional<std::string>> read_token(const std::string& path, const std::string& what) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a pipe would wait
  struct stat status{};
  if (!file && errno == ENOENT) {
    if (::lstat(path.c_str(), &status) != 0) return std::nullopt;
    return arrow::Status::Invalid(path, " is a link to a file that is not there, which could hold ", what);
  }
  if (!file || ::fstat(file.get(), &status) != 0) return errno_status("reading " + path);
  if (!S_ISREG(status.st_mode)) return arrow::Status::Invalid(path, " is no file, which could hold ", what);
  if (status.st_uid != ::geteuid() || (status.st_mode & 077) != 0) {
    return arrow::Status::Invalid(path, " holds ", what, ", and others may read it (wanted mode 0600, got 0",
                                  (status.st_mode >> 6) & 7, (status.st_mode >> 3) & 7, status.st_mode & 7,
                                  "); delete it, and a new one is made");
  }
  std::array<char, kMost + 1> bytes{};
  const ssize_t count = ::read(file.get(), bytes.data(), bytes.size());
  if (count < 0) return errno_status("reading " + path);
  if (count == 0) {
    ::unlink(path.c_str());
    return std::nullopt;
  }
  std::string_view token(bytes.data(), static_cast<size_t>(count));
  while (token.ends_with('\n') || token.ends_with('\r')) token.remove_suffix(1);
  if (token.size() < kLeast || token.size() > kMost) {
    return arrow::Status::Invalid(path, " holds no token of ", kLeast, " to ", kMost,
                                  " letters; delete it, and a new one is made");
  }
  return std::string(token);
}

}  // namespace

arrow::Result<std::string> token_in_file(const std::string& path, const std::string& what) {
  while (true) {
    ARROW_ASSIGN_OR_RAISE(std::optional<std::string> token, read_token(path, what));
    if (token) return *std::move(token);
    ARROW_RETURN_NOT_OK(make_token(path));
  }
}

bool has_token(const Request& request, const std::string& token) {
  constexpr std::string_view kScheme = "Bearer ";
  const auto given = request.header("authorization");
  return given && !token.empty() && given->starts_with(kScheme) &&
         transport::is_same_token(std::string(given->substr(kScheme.size())), token);
}

}  // namespace paceline::dashboard
