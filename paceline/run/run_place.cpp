#include "paceline/run/run_place.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <random>

#include "paceline/run/working_folder.h"
#include "paceline/storage/local/durable.h"

namespace paceline::run {
namespace {

constexpr size_t kMostNameBytes = 60;

// Umlauts and the like may stay; what begins with '-' or '.' would be a flag or hidden.
std::string name_after(const std::string& program) {
  std::string name = std::filesystem::path(program).filename().string();
  for (const char* ending : {".py", ".ipynb"}) {
    if (name.ends_with(ending)) name.erase(name.size() - std::strlen(ending));
  }
  for (char& letter : name) {
    const auto code = static_cast<unsigned char>(letter);
    if (code < 0x80 && std::isalnum(code) == 0 && letter != '-' && letter != '.') letter = '_';
  }
  name.erase(0, name.find_first_not_of("-."));
  size_t end = std::min(name.size(), kMostNameBytes);
  while (end > 0 && end < name.size() && (static_cast<unsigned char>(name[end]) & 0xC0) == 0x80) --end;
  name.resize(end);
  return name.empty() ? "run" : name;
}

}  // namespace

std::string new_run_name(const std::string& program) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  char text[64];
  const size_t length = std::strftime(text, sizeof text, "_%Y-%m-%d_%H-%M-%S", &local);
  std::snprintf(text + length, sizeof text - length, "_%08x", std::random_device{}());
  return name_after(program) + text;
}

arrow::Result<RunPlace> make_run_place(const std::string& storage_path, const std::string& name) {
  ARROW_ASSIGN_OR_RAISE(const storage::Location storage, storage::resolve_here(storage_path));
  RunPlace place{.location = storage::join(storage, name)};
  if (storage.is_uri()) {
    ARROW_ASSIGN_OR_RAISE(place.folder, make_working_folder(place.location));
  } else {
    place.folder = place.location.text();
    ARROW_RETURN_NOT_OK(storage::check_writable(storage.text()));
    ARROW_RETURN_NOT_OK(storage::make_folders(place.folder));
  }
  return place;
}

}  // namespace paceline::run
