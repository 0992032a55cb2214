#include "paceline/core/notice.h"

#include <unistd.h>

#include <mutex>
#include <set>

namespace paceline {

void notice(const std::string& text) {
  const std::string line = "paceline: " + text + "\n";
  // Not through a stream, whose lock a fork may find taken. Nobody can be told where this fails.
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

void notice_once(const std::string& text) {
  static std::mutex mutex;
  static std::set<std::string>& given = *new std::set<std::string>;  // threads may come here as the program ends
  {
    const std::lock_guard lock(mutex);
    if (!given.insert(text).second) return;
  }
  notice(text);
}

}  // namespace paceline
