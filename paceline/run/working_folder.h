// The working folder of a run at a URI, $STATE/working/NAME_HASH: where its driver on this machine works, or where
// readers keep a copy of the run's records. Functions of files; whoever changes one has locked it
// (storage/local/run_lock.h).
#pragma once

#include <arrow/result.h>

#include <optional>
#include <string>
#include <vector>

#include "paceline/storage/storage.h"

namespace paceline::run {

/// Where it is, or would be.
arrow::Result<std::string> working_folder(const storage::Location& location);
/// Makes it and notes there where the run is.
arrow::Result<std::string> make_working_folder(const storage::Location& location);
/// Where the run is that has this folder on this machine: for a working folder the URI, which has no keys any more;
/// else the folder itself.
storage::Location run_location(const std::string& folder);

/// Whether the folder is a reader's copy, which may be out of date: no driver of this machine has it.
bool is_reader_copy(const std::string& folder);
arrow::Status mark_as_reader_copy(const std::string& folder);
arrow::Status mark_as_drivers(const std::string& folder);
/// Whether the folder's files are right, rather than the run's records, whose journal is `journal`. `held_last`:
/// whether the run's last driver was here (storage/objects/lease.h); a piece of the records may be older than what it
/// wrote. Where there are no claims any more, the later epoch tells.
bool is_drivers_own(const std::string& folder, const std::string& journal, std::optional<bool> held_last);

/// The run's files, relative to the folder: without what is of this machine (lock, control socket, claim, staging).
std::vector<std::string> files_of_run(const std::string& folder);
/// Deletes these.
arrow::Status clear_working_folder(const std::string& folder);

/// Copies those of the run's records that the folder lacks. A file that has its size already is left as it is: records
/// only grow.
arrow::Status copy_records(const storage::Storage& run, const std::vector<storage::FileSize>& records,
                           const std::string& folder);

}  // namespace paceline::run
