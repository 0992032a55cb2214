#include "paceline/dashboard/sessions.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "paceline/core/posix/descriptor.h"
#include "paceline/transport/trust.h"

namespace paceline::dashboard {
namespace {

constexpr mode_t kOwnersAlone = 0600;

// Calls `take` with the value of each cookie of that name.
template <class Take>
void visit_cookies(const Request& request, const std::string& name, const Take& take) {
  for (const auto& [header, value] : request.headers) {
    if (header != "cookie") continue;
    std::string_view rest = value;
    while (!rest.empty()) {
      const size_t end = rest.find(';');
      std::string_view cookie = rest.substr(0, end);
      rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
      cookie.remove_prefix(std::min(cookie.find_first_not_of(' '), cookie.size()));
      if (cookie.starts_with(name) && cookie.substr(name.size()).starts_with('=')) {
        take(std::string(cookie.substr(name.size() + 1)));
      }
    }
  }
}

}  // namespace

arrow::Result<std::unique_ptr<Sessions>> Sessions::create(OnNewCode on_new_code) {
  ARROW_ASSIGN_OR_RAISE(std::string code, transport::random_id());
  return std::unique_ptr<Sessions>(new Sessions(std::move(code), std::move(on_new_code)));
}

std::string Sessions::code() const {
  const std::lock_guard lock(mutex_);
  return code_;
}

std::optional<std::string> Sessions::open(const std::string& code) {
  const auto next = transport::random_id(), first = transport::random_id(), second = transport::random_id();
  if (!next.ok() || !first.ok() || !second.ok()) return std::nullopt;  // no random numbers: no sessions
  std::string cookie = *first + *second;
  {
    const std::lock_guard lock(mutex_);
    if (!transport::is_same_token(code, code_)) return std::nullopt;
    code_ = *next;
    if (sessions_.size() == kMostSessions) sessions_.erase(sessions_.begin());
    sessions_.push_back({++opened_, cookie});
  }
  if (on_new_code_) on_new_code_(*next);
  return cookie;
}

std::optional<int64_t> Sessions::session_of(const Request& request) const {
  std::optional<int64_t> found;
  visit_cookies(request, cookie_name_, [&](const std::string& cookie) {
    const std::lock_guard lock(mutex_);
    for (const Session& session : sessions_) {
      if (transport::is_same_token(cookie, session.cookie)) found = session.number;
    }
  });
  return found;
}

arrow::Result<std::string> metrics_token(const std::string& path) {
  if (const Descriptor made(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kOwnersAlone)); made) {
    ARROW_ASSIGN_OR_RAISE(std::string token, transport::random_id());
    const std::string line = token + "\n";
    if (::write(made.get(), line.data(), line.size()) != std::ssize(line)) return errno_status("writing " + path);
    return token;
  }
  if (errno != EEXIST) return errno_status("making " + path);
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  struct stat what{};
  if (!file || ::fstat(file.get(), &what) != 0) return errno_status("reading " + path);
  if (what.st_uid != ::geteuid() || (what.st_mode & 077) != 0) {
    return arrow::Status::Invalid(
        path, " holds the token for /metrics, and others may read it (wanted mode 0600, got 0", (what.st_mode >> 6) & 7,
        (what.st_mode >> 3) & 7, what.st_mode & 7, "); delete it, and a new one is made");
  }
  std::string token(64, '\0');
  const ssize_t count = ::read(file.get(), token.data(), token.size());
  if (count < 0) return errno_status("reading " + path);
  token.resize(static_cast<size_t>(count));
  while (token.ends_with('\n')) token.pop_back();
  constexpr size_t kDigits = 32;
  if (token.size() < kDigits) {
    return arrow::Status::Invalid(path, " holds no token of at least 32 letters; delete it, and a new one is made");
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
