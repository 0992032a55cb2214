#include "paceline/dashboard/token_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "paceline/core/posix/descriptor.h"
#include "paceline/transport/trust.h"

namespace paceline::dashboard {
namespace {

constexpr mode_t kOwnersAlone = 0600;
constexpr size_t kLeast = 32, kMost = 1024;  // bytes of a token, that a user may have chosen

arrow::Result<std::string> make_token(const Descriptor& file, const std::string& path) {
  ARROW_ASSIGN_OR_RAISE(std::string token, transport::random_id());
  const std::string line = token + "\n";
  if (::write(file.get(), line.data(), line.size()) != std::ssize(line)) return errno_status("writing " + path);
  return token;
}

}  // namespace

arrow::Result<std::string> token_in_file(const std::string& path, const std::string& what) {
  if (const Descriptor made(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kOwnersAlone)); made) {
    return make_token(made, path);
  }
  if (errno != EEXIST) return errno_status("making " + path);
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  struct stat status{};
  if (!file || ::fstat(file.get(), &status) != 0) return errno_status("reading " + path);
  if (status.st_uid != ::geteuid() || (status.st_mode & 077) != 0) {
    return arrow::Status::Invalid(path, " holds ", what, ", and others may read it (wanted mode 0600, got 0",
                                  (status.st_mode >> 6) & 7, (status.st_mode >> 3) & 7, status.st_mode & 7,
                                  "); delete it, and a new one is made");
  }
  std::array<char, kMost> bytes{};
  const ssize_t count = ::read(file.get(), bytes.data(), bytes.size());
  if (count < 0) return errno_status("reading " + path);
  std::string token(bytes.data(), static_cast<size_t>(count));
  while (token.ends_with('\n')) token.pop_back();
  if (token.size() < kLeast) {
    return arrow::Status::Invalid(path, " holds no token of at least ", kLeast,
                                  " letters; delete it, and a new one is made");
  }
  return token;
}

bool has_token(const Request& request, const std::string& token) {
  constexpr std::string_view kScheme = "Bearer ";
  const auto given = request.header("authorization");
  return given && !token.empty() && given->starts_with(kScheme) &&
         transport::is_same_token(std::string(given->substr(kScheme.size())), token);
}

}  // namespace paceline::dashboard
