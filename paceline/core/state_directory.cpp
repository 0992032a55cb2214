#include "paceline/core/state_directory.h"

#include <pwd.h>
#include <unistd.h>

#include <cstdlib>

namespace paceline {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string without_trailing_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

}  // namespace

std::string home_directory() {
  if (std::string home = variable("HOME"); home.starts_with('/')) return home;
  const passwd* const user = ::getpwuid(::getuid());  // NOLINT(concurrency-mt-unsafe): at the start of a program
  return user == nullptr || user->pw_dir == nullptr ? "" : user->pw_dir;
}

arrow::Result<std::string> state_directory() {
  if (const std::string own = variable("PACELINE_STATE_DIR"); !own.empty()) {
    if (own.front() == '/') return without_trailing_slash(own);
    return arrow::Status::Invalid("PACELINE_STATE_DIR is \"", own, "\"; wanted an absolute path");
  }
  if (const std::string xdg = variable("XDG_STATE_HOME"); xdg.starts_with('/')) {
    return without_trailing_slash(xdg) + "/paceline";
  }
  if (const std::string home = home_directory(); home.starts_with('/')) {
    return without_trailing_slash(home) + "/.local/state/paceline";
  }
  return arrow::Status::Invalid(
      "no folder for Paceline's state: HOME is not set, and this process's user has none; set PACELINE_STATE_DIR");
}

}  // namespace paceline
