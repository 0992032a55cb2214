#include "paceline/core/posix/environment.h"

#include <unistd.h>

#include <cstdlib>
#include <set>
#include <string_view>

namespace paceline {
namespace {

std::set<std::string>& own_names() {
  static std::set<std::string> names;
  return names;
}

}  // namespace

void set_own_variable(const char* name, const char* value) {
  if (std::getenv(name) != nullptr) return;
  ::setenv(name, value, /*overwrite=*/0);
  own_names().insert(name);
}

std::map<std::string, std::string> child_environment() {
  std::map<std::string, std::string> environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos) environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  for (const std::string& name : own_names()) environment.erase(name);
  return environment;
}

}  // namespace paceline
