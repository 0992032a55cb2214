#include "paceline/controller/run_records.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "paceline/controller/journal.h"
#include "paceline/controller/working_folder.h"
#include "paceline/core/posix/descriptor.h"
#include "paceline/storage/file_mirror.h"
#include "paceline/storage/local.h"
#include "paceline/storage/location.h"
#include "paceline/storage/run_lock.h"

namespace paceline::controller {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHistory = "metrics.jsonl";

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

arrow::Result<std::string> readable_folder(const std::string& location) {
  ARROW_ASSIGN_OR_RAISE(const auto run, storage::open_storage(location));
  const auto journal = storage::read_mirrored(*run, kJournalName);
  ARROW_ASSIGN_OR_RAISE(std::string folder, working_folder(location));
  if (journal.status().IsKeyError()) {
    ARROW_RETURN_NOT_OK(clear_copy(folder));
    return arrow::Status::KeyError(storage::without_secrets(location),
                                   " holds no run (it has no journal); a run is at STORAGE_PATH/NAME");
  }
  ARROW_RETURN_NOT_OK(journal.status());
  if (is_drivers_own(folder, *journal)) return folder;
  ARROW_RETURN_NOT_OK(make_working_folder(location));
  const auto lock = storage::RunLock::acquire(folder);
  if (lock.status().IsAlreadyExists()) return folder;  // a driver here is about to take the run over
  ARROW_RETURN_NOT_OK(lock.status());
  ARROW_RETURN_NOT_OK(update_copy(*run, *journal, folder));
  return folder;
}

arrow::Result<RunRecords> RunRecords::open(const std::string& location) {
  if (!storage::is_uri(location)) return RunRecords(std::make_shared<const std::string>(location));
  ARROW_ASSIGN_OR_RAISE(const auto run, storage::open_storage(location));
  std::string made = (fs::temp_directory_path() / "paceline_records_XXXXXX").string();
  if (::mkdtemp(made.data()) == nullptr) return errno_status("making folder " + made);
  RunRecords records(std::shared_ptr<const std::string>(new std::string(made), [](const std::string* path) {
    (void)storage::remove_all(*path);
    delete path;
  }));
  ARROW_ASSIGN_OR_RAISE(auto files, storage::mirrored_files(*run));
  std::erase_if(files, [](const auto& file) { return file.name != kJournalName && file.name != kHistory; });
  ARROW_RETURN_NOT_OK(copy_records(*run, files, made));
  return records;
}

}  // namespace paceline::controller
