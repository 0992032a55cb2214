// RunLock: one driver per run folder. flock on `run.lock`, which holds the holder's pid and host for the error message.
//
// Ownership: held until destruction or the process's end, however it ends. Children do not keep it, whether they exec
// or are only forked.
#pragma once

#include <arrow/result.h>

#include <string>

#include "paceline/core/posix/descriptor.h"

namespace paceline::storage {

class RunLock {
 public:
  /// AlreadyExists when another driver holds it: "run X is held by process 123 on host Y; …". While the guardian of a
  /// driver that has died on this host tidies up, it waits.
  static arrow::Result<RunLock> acquire(const std::string& run_folder);
  /// For whoever tidies up after a holder that has died: the file keeps naming the dead holder, so that a driver that
  /// wants the lock in the meantime waits. AlreadyExists when a driver has it already.
  static arrow::Result<RunLock> acquire_after_death(const std::string& run_folder);

  RunLock(RunLock&&) = default;
  RunLock& operator=(RunLock&&) = delete;
  ~RunLock();

 private:
  explicit RunLock(Descriptor file);
  Descriptor file_;
};

}  // namespace paceline::storage
