#include <cstdio>
#include <ctime>
#include <filesystem>
#include <random>

#include "paceline/core/error.h"
#include "paceline/storage/local.h"
#include "paceline/train/run_folder_internal.h"

namespace paceline::train {

std::string new_run_name() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  char text[64];
  const size_t length = std::strftime(text, sizeof text, "run_%Y-%m-%d_%H-%M-%S", &local);
  std::snprintf(text + length, sizeof text - length, "_%08x", std::random_device{}());
  return text;
}

std::string prepare_run_folder(const RunConfig& config) {
  const auto named = [&config](const arrow::Status& status) {
    return status.ok()
               ? status
               : status.WithMessage("RunConfig.storage_path is \"", config.storage_path, "\": ", status.message());
  };
  const std::string directory = std::filesystem::current_path();
  const auto storage = storage::resolve_folder(config.storage_path, directory);
  throw_if_error(named(storage.status()));
  throw_if_error(named(storage::check_writable(*storage)));
  const std::string folder = *storage + "/" + config.name.value();
  throw_if_error(named(storage::make_folders(folder)));
  return folder;
}

storage::RunLock lock_run_folder(const std::string& folder) {
  auto lock = storage::RunLock::acquire(folder);
  if (lock.status().IsAlreadyExists()) throw UsageError(lock.status().message());
  return value_or_throw(std::move(lock));
}

}  // namespace paceline::train
