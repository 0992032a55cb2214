#include "paceline/run/run_place.h"

#include "paceline/core/error.h"
#include "paceline/storage/location.h"
#include "paceline/train/run_folder_internal.h"

namespace paceline::train {

run::RunPlace prepare_run_place(const RunConfig& config) {
  const auto place = run::make_run_place(config.storage_path, config.name.value());
  if (place.ok()) return *place;
  const arrow::Status& status = place.status();
  throw_if_error(status.WithMessage("RunConfig.storage_path is \"", storage::without_secrets(config.storage_path),
                                    "\": ", status.message()));
  return {};
}

storage::RunLock lock_run_folder(const std::string& folder) {
  auto lock = storage::RunLock::acquire(folder);
  if (lock.status().IsAlreadyExists()) throw UsageError(lock.status().message());
  return value_or_throw(std::move(lock));
}

}  // namespace paceline::train
