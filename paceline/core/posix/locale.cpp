#include "paceline/core/posix/locale.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string>

namespace paceline {

bool locale_has_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* variable = std::getenv(name);
    if (variable == nullptr || *variable == '\0') continue;
    std::string value = variable;
    std::transform(value.begin(), value.end(), value.begin(), [](unsigned char c) { return std::tolower(c); });
    return value.find("utf-8") != std::string::npos || value.find("utf8") != std::string::npos;
  }
  return false;
}

}  // namespace paceline
