// A run's place before the run: its name, and where it will be.
#pragma once

#include <arrow/result.h>

#include <string>

#include "paceline/storage/location.h"

namespace paceline::run {

/// "train_mnist_2026-11-21_08-05-09_4f3a91c2" for the program "examples/train_mnist.py": unique between processes that
/// start within one second. What could not be in every shell's word becomes '_'; "run_…" where nothing is left.
std::string new_run_name(const std::string& program);

/// Where a run is. Of a run in a local folder both are the same.
struct RunPlace {
  /// As users see it.
  storage::Location location;
  /// Absolute: where the driver works, with journal, logs and staging.
  std::string folder;
};

/// The place of run `name` in the storage path: the folder is made, and it can be written there. Invalid for a storage
/// path of an unknown kind, IOError where nothing can be written.
arrow::Result<RunPlace> make_run_place(const std::string& storage_path, const std::string& name);

}  // namespace paceline::run
