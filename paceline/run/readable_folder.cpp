#include "paceline/run/readable_folder.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "paceline/core/posix/descriptor.h"
#include "paceline/core/run_layout.h"
#include "paceline/run/journal.h"
#include "paceline/run/working_folder.h"
#include "paceline/storage/local/durable.h"
#include "paceline/storage/local/run_lock.h"
#include "paceline/storage/objects/file_mirror.h"
#include "paceline/storage/objects/lease.h"

namespace paceline::run {
namespace {

namespace fs = std::filesystem;

// The mark stands before anything is copied: half a copy is no working folder.
arrow::Status update_copy(const storage::Storage& run, const std::string& journal, const std::string& folder) {
  const auto copied = storage::read_file(journal_path(folder));
  if (!is_reader_copy(folder) || !copied.ok() || !journal.starts_with(*copied)) {
    ARROW_RETURN_NOT_OK(mark_as_reader_copy(folder));
    ARROW_RETURN_NOT_OK(clear_working_folder(folder));
  }
  ARROW_ASSIGN_OR_RAISE(const auto records, storage::mirrored_files(run));
  ARROW_RETURN_NOT_OK(copy_records(run, records, folder));
  for (const std::string& name : files_of_run(folder)) {
    if (std::ranges::find(records, name, &storage::FileSize::name) != records.end()) continue;
    ARROW_RETURN_NOT_OK(storage::remove_all(folder + "/" + name));
  }
  return arrow::Status::OK();
}

// The run has been deleted.
arrow::Status clear_copy(const std::string& folder) {
  if (!is_reader_copy(folder)) return arrow::Status::OK();
  const auto lock = storage::RunLock::acquire(folder);
  return lock.ok() ? clear_working_folder(folder) : arrow::Status::OK();
}

}  // namespace

arrow::Result<std::string> readable_folder(const storage::Location& location) {
  ARROW_ASSIGN_OR_RAISE(const auto run, storage::open_storage(location));
  const auto journal = storage::read_mirrored(*run, run_layout::kJournal);
  ARROW_ASSIGN_OR_RAISE(std::string folder, working_folder(location));
  if (journal.status().IsKeyError()) {
    ARROW_RETURN_NOT_OK(clear_copy(folder));
    return arrow::Status::KeyError(location, " holds no run (it has no journal); a run is at STORAGE_PATH/NAME");
  }
  ARROW_RETURN_NOT_OK(journal.status());
  ARROW_ASSIGN_OR_RAISE(const auto held_last, storage::was_held_last_here(*run, folder + "/" + run_layout::kClaim));
  if (is_drivers_own(folder, *journal, held_last)) return folder;
  ARROW_RETURN_NOT_OK(make_working_folder(location));
  const auto lock = storage::RunLock::acquire(folder);
  if (lock.status().IsAlreadyExists()) return folder;  // a driver here is about to take the run over
  ARROW_RETURN_NOT_OK(lock.status());
  ARROW_RETURN_NOT_OK(update_copy(*run, *journal, folder));
  return folder;
}

arrow::Result<ReadableFolder> ReadableFolder::open(const storage::Location& location) {
  if (!location.is_uri()) return ReadableFolder(std::make_shared<const std::string>(location.text()));
  ARROW_ASSIGN_OR_RAISE(const auto run, storage::open_storage(location));
  std::string made = (fs::temp_directory_path() / "paceline_records_XXXXXX").string();
  if (::mkdtemp(made.data()) == nullptr) return errno_status("making folder " + made);
  ReadableFolder records(std::shared_ptr<const std::string>(new std::string(made), [](const std::string* path) {
    (void)storage::remove_all(*path);
    delete path;
  }));
  ARROW_ASSIGN_OR_RAISE(auto files, storage::mirrored_files(*run));
  std::erase_if(
      files, [](const auto& file) { return file.name != run_layout::kJournal && file.name != run_layout::kHistory; });
  ARROW_RETURN_NOT_OK(copy_records(*run, files, made));
  return records;
}

}  // namespace paceline::run
