// RunLock: one driver per run folder. flock on `run.lock`, which holds the holder's pid and host for the error message.
//
// Ownership: held until destruction or the process's end, however it ends. Children that exec do not keep it.
#pragma once

#include <arrow/result.h>

#include <string>

#include "paceline/core/posix/descriptor.h"

namespace paceline::storage {

class RunLock {
 public:
  /// AlreadyExists when another driver holds it: "run X is held by process 123 on host Y; …".
  static arrow::Result<RunLock> acquire(const std::string& run_folder);

  RunLock(RunLock&&) = default;
  RunLock& operator=(RunLock&&) = default;

 private:
  explicit RunLock(Descriptor file) : file_(std::move(file)) {}
  Descriptor file_;
};

}  // namespace paceline::storage
