// What readers see of a run at a location, without a lease and without changing anything there.
//
// Of a run in an object store they see its records (object_run.h), in a folder on this machine. Not thread-safe.
#pragma once

#include <arrow/result.h>

#include <memory>
#include <string>
#include <utility>

#include "paceline/storage/location.h"

namespace paceline::run {

/// The folder on this machine that shows the run at a URI: the working folder that a driver here has, or had last; else
/// a copy of the run's records there, brought up to date. KeyError when no run is there; the copy of one that was there
/// is deleted then.
arrow::Result<std::string> readable_folder(const storage::Location& location);

/// Journal and history of a run at a location, as a folder: the run's own where it is local, else a temporary copy that
/// is deleted with the object. Readers hold no lease.
class ReadableFolder {
 public:
  static arrow::Result<ReadableFolder> open(const storage::Location& location);
  const std::string& folder() const { return *folder_; }

 private:
  explicit ReadableFolder(std::shared_ptr<const std::string> folder) : folder_(std::move(folder)) {}
  std::shared_ptr<const std::string> folder_;
};

}  // namespace paceline::run
