#include "paceline/run/run_place.h"

#include <cstdio>
#include <ctime>
#include <filesystem>
#include <random>

#include "paceline/run/working_folder.h"
#include "paceline/storage/local/durable.h"
#include "paceline/storage/location.h"

namespace paceline::run {

std::string new_run_name() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  char text[64];
  const size_t length = std::strftime(text, sizeof text, "run_%Y-%m-%d_%H-%M-%S", &local);
  std::snprintf(text + length, sizeof text - length, "_%08x", std::random_device{}());
  return text;
}

arrow::Result<RunPlace> make_run_place(const std::string& storage_path, const std::string& name) {
  ARROW_ASSIGN_OR_RAISE(const std::string storage,
                        storage::resolve_location(storage_path, std::filesystem::current_path().string()));
  RunPlace place{.location = storage::join(storage, name)};
  place.folder = place.location;
  if (storage::is_uri(storage)) {
    ARROW_ASSIGN_OR_RAISE(place.folder, make_working_folder(place.location));
  } else {
    ARROW_RETURN_NOT_OK(storage::check_writable(storage));
    ARROW_RETURN_NOT_OK(storage::make_folders(place.folder));
  }
  return place;
}

}  // namespace paceline::run
