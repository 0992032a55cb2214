#include "paceline/controller/run_request.h"

#include <filesystem>

#include "paceline/run/run_place.h"
#include "paceline/storage/location.h"
#include "paceline/track/run_store.h"

namespace paceline::controller {

arrow::Result<TakenRun> take_run(const RunConfig& run_config) {
  RunRequest request;
  request.run_config = run_config;
  if (!request.run_config.name) request.run_config.name = run::new_run_name();
  const auto place = run::make_run_place(run_config.storage_path, *request.run_config.name);
  if (!place.ok()) {
    return place.status().WithMessage("RunConfig.storage_path is \"", storage::without_secrets(run_config.storage_path),
                                      "\": ", place.status().message());
  }
  request.run_folder = place->folder;
  request.location = place->location;
  request.run_store = track::user_run_store().ValueOr("");
  request.directory = std::filesystem::current_path().string();
  ARROW_ASSIGN_OR_RAISE(storage::RunLock lock, storage::RunLock::acquire(request.run_folder));
  return TakenRun{std::move(request), std::move(lock)};
}

std::string checkpoint_location(const RunRequest& request, const std::string& name) {
  return storage::join(request.location, name);
}

}  // namespace paceline::controller
