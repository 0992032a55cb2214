#include "paceline/core/fail_point.h"

#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

namespace paceline {
namespace {

struct Armed {
  std::string_view action;
  bool always = false;
  int64_t passages_left = 1;
};

// 1 for what is no number.
int64_t parse_count(std::string_view text) {
  int64_t count = 1;
  std::from_chars(text.data(), text.data() + text.size(), count);
  return count;
}

// "name=kill, other=error@3" → what to do at each name. What does not parse is ignored: this is for tests only.
std::map<std::string, Armed, std::less<>> parse(std::string_view text) {
  std::map<std::string, Armed, std::less<>> points;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    std::string_view entry = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
    while (entry.starts_with(' ')) entry.remove_prefix(1);
    const size_t equals = entry.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view action = entry.substr(equals + 1);
    const size_t at = action.find('@');
    Armed armed{.action = action.substr(0, at)};
    armed.always = at != std::string_view::npos && action.substr(at + 1) == "*";
    if (at != std::string_view::npos && !armed.always) armed.passages_left = parse_count(action.substr(at + 1));
    points.emplace(entry.substr(0, equals), armed);
  }
  return points;
}

}  // namespace

arrow::Status fail_point(std::string_view name) {
  static const char* text = std::getenv("PACELINE_FAIL_POINTS");
  if (text == nullptr) return arrow::Status::OK();
  static std::mutex mutex;
  static auto points = parse(text);
  std::unique_lock lock(mutex);
  const auto found = points.find(name);
  if (found == points.end()) return arrow::Status::OK();
  if (!found->second.always && --found->second.passages_left != 0) return arrow::Status::OK();
  if (found->second.action == "kill") ::raise(SIGKILL);
  if (found->second.action == "exit") ::_exit(0);
  if (found->second.action == "stop") {
    ::raise(SIGSTOP);
    return arrow::Status::OK();
  }
  if (found->second.action == "hang") {
    lock.unlock();
    while (true) ::pause();
  }
  return arrow::Status::IOError("fail point ", name);
}

}  // namespace paceline
