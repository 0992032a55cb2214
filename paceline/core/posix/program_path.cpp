#include "paceline/core/posix/program_path.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

namespace paceline {

std::string program_in_path(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/usr/local/bin:/usr/bin:/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string candidate = folder + "/" + name;
    if (folder.starts_with('/') && ::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

std::string paceline_program() {
  constexpr const char* kName = "paceline";
  std::error_code error;
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe", error);
  return own.filename() == kName ? own.string() : program_in_path(kName);
}

}  // namespace paceline
