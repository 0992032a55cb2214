#include "paceline/controller/object_run.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "paceline/checkpoint/manifest.h"
#include "paceline/core/posix/descriptor.h"
#include "paceline/core/state_directory.h"
#include "paceline/storage/arrow_storage.h"
#include "paceline/storage/checksum.h"
#include "paceline/storage/local.h"
#include "paceline/storage/location.h"
#include "paceline/storage/parallel.h"
#include "paceline/storage/retrying_storage.h"
#include "paceline/storage/run_lock.h"
#include "paceline/storage/storage_proof.h"

namespace paceline::controller {
namespace {

namespace fs = std::filesystem;

constexpr const char* kJournal = "journal.jsonl";
constexpr const char* kHistory = "metrics.jsonl";
constexpr const char* kClaim = "lease";
constexpr const char* kLocation = "location";
// Marks a working folder that no driver has: its content shows what others have done.
constexpr const char* kCopyMark = ".copy";
constexpr std::chrono::seconds kFinishPatience{120};

// What is of this machine, and what is not yet the run's: lock, control socket, claim, staging.
bool is_the_machines(const std::string& name) {
  return name.starts_with('.') || name == "run.lock" || name == "control.sock" || name == kClaim || name == kLocation;
}

std::vector<std::string> files_to_mirror(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().lexically_relative(folder).string();
    std::error_code gone;
    if (is_the_machines(name)) {
      entry.disable_recursion_pending();
    } else if (entry->is_regular_file(gone) && !storage::is_temporary_file(name)) {
      names.push_back(name);
    }
  }
  return names;
}

enum class Which { journal_and_history, all };

// What has its size already is left: records only grow.
arrow::Status copy_records(const storage::Storage& run, const std::string& folder, Which which) {
  ARROW_ASSIGN_OR_RAISE(const auto files, storage::mirrored_files(run));
  for (const auto& [name, size] : files) {
    if (which != Which::all && name != kJournal && name != kHistory) continue;
    const std::string path = folder + "/" + name;
    std::error_code error;
    if (fs::file_size(path, error) == static_cast<uintmax_t>(size) && !error) continue;
    ARROW_ASSIGN_OR_RAISE(const std::string content, storage::read_mirrored(run, name));
    ARROW_RETURN_NOT_OK(storage::make_folders(fs::path(path).parent_path().string()));
    ARROW_RETURN_NOT_OK(storage::write_atomically(path, content));
  }
  return arrow::Status::OK();
}

arrow::Status clear(const std::string& folder) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (!is_the_machines(entry->path().filename().string())) {
      ARROW_RETURN_NOT_OK(storage::remove_all(entry->path().string()));
    }
  }
  if (error) return arrow::Status::IOError("reading folder ", folder, ": ", error.message());
  return arrow::Status::OK();
}

// Whether nothing but claims is at the run's location.
arrow::Result<bool> is_gone(const storage::Storage& run) {
  ARROW_ASSIGN_OR_RAISE(const auto files, run.list());
  return std::ranges::all_of(files, [](const auto& file) { return file.name.starts_with('.'); });
}

bool goes_on_from(const std::string& folder, const std::string& journal) {
  const auto local = storage::read_file(folder + "/" + kJournal);
  return local.ok() && local->starts_with(journal) && !is_reader_copy(folder);
}

// The working folder is right when its journal goes on from what the records have. Else another machine has had the run
// since, or this one never had it; or the run has been deleted, and its name starts afresh.
arrow::Status restore(const storage::Storage& run, const std::string& folder) {
  const auto remote = storage::read_mirrored(run, kJournal);
  if (remote.status().IsKeyError()) {
    ARROW_ASSIGN_OR_RAISE(const bool gone, is_gone(run));
    return gone || is_reader_copy(folder) ? clear(folder) : arrow::Status::OK();
  }
  ARROW_RETURN_NOT_OK(remote.status());
  if (goes_on_from(folder, *remote)) return arrow::Status::OK();
  ARROW_RETURN_NOT_OK(clear(folder));
  return copy_records(run, folder, Which::all);
}

// The mark stands before anything is copied: half a copy is no working folder.
arrow::Status update_copy(const storage::Storage& run, const std::string& journal, const std::string& folder) {
  const auto copied = storage::read_file(folder + "/" + kJournal);
  if (!is_reader_copy(folder) || !copied.ok() || !journal.starts_with(*copied)) {
    ARROW_RETURN_NOT_OK(storage::write_atomically(folder + "/" + kCopyMark, ""));
    ARROW_RETURN_NOT_OK(clear(folder));
  }
  ARROW_RETURN_NOT_OK(copy_records(run, folder, Which::all));
  ARROW_ASSIGN_OR_RAISE(const auto files, storage::mirrored_files(run));
  for (const std::string& name : files_to_mirror(folder)) {
    if (std::ranges::find(files, name, &storage::FileSize::name) != files.end()) continue;
    ARROW_RETURN_NOT_OK(storage::remove_all(folder + "/" + name));
  }
  return arrow::Status::OK();
}

arrow::Result<std::string> working_folder(const std::string& location) {
  ARROW_ASSIGN_OR_RAISE(const std::string state, state_directory());
  const std::string shown = storage::without_secrets(location);
  const std::string hash = storage::checksum_of(std::as_bytes(std::span(shown))).substr(0, 12);
  return state + "/working/" + storage::last_part(location) + "_" + hash;
}

// A lease for one who deletes or trains. What takes longer to renew is better begun again.
arrow::Result<std::unique_ptr<storage::Lease>> acquire_lease(std::shared_ptr<storage::Storage> objects,
                                                             const std::string& folder, ObjectRun::Tell note,
                                                             ObjectRun::Tell on_lost) {
  storage::LeaseOptions options;
  options.note = std::move(note);
  options.on_lost = std::move(on_lost);
  const storage::RetryPolicy policy{.budget = options.renewal};
  return storage::Lease::acquire(std::make_shared<storage::RetryingStorage>(std::move(objects), policy),
                                 folder + "/" + kClaim, std::move(options));
}

}  // namespace

arrow::Result<std::unique_ptr<ObjectRun>> ObjectRun::take(const std::string& location, const std::string& folder,
                                                          const Tell& note, Tell on_lost) {
  ARROW_ASSIGN_OR_RAISE(const std::shared_ptr<storage::Storage> objects, storage::open_object_storage(location));
  std::unique_ptr<ObjectRun> taken(new ObjectRun);
  ARROW_ASSIGN_OR_RAISE(taken->lease_, acquire_lease(objects, folder, note, std::move(on_lost)));
  taken->objects_ = storage::with_retries(taken->lease_->guard(objects));
  ARROW_RETURN_NOT_OK(restore(*taken->objects_, folder));
  ARROW_RETURN_NOT_OK(storage::remove_all(folder + "/" + kCopyMark));
  taken->mirror_ =
      std::make_unique<storage::FileMirror>(taken->objects_, folder, [folder] { return files_to_mirror(folder); });
  return taken;
}

void ObjectRun::push() {
  mirror_->push();
}

arrow::Status ObjectRun::finish() {
  (void)objects_->remove(storage::kStorageProof);  // the next start writes another
  return mirror_->finish(kFinishPatience);
}

arrow::Result<std::string> make_working_folder(const std::string& location) {
  ARROW_ASSIGN_OR_RAISE(std::string folder, working_folder(location));
  ARROW_RETURN_NOT_OK(storage::make_folders(folder));
  ARROW_RETURN_NOT_OK(storage::write_atomically(folder + "/" + kLocation, storage::without_secrets(location)));
  return folder;
}

std::string run_location(const std::string& folder) {
  const auto state = state_directory();
  if (!state.ok() || !folder.starts_with(*state + "/working/")) return folder;
  return storage::read_file(folder + "/" + kLocation).ValueOr(folder);
}

bool is_reader_copy(const std::string& folder) {
  std::error_code error;
  return fs::exists(folder + "/" + kCopyMark, error);
}

arrow::Result<std::string> readable_folder(const std::string& location) {
  ARROW_ASSIGN_OR_RAISE(const auto run, storage::open_storage(location));
  const auto journal = storage::read_mirrored(*run, kJournal);
  if (journal.status().IsKeyError()) {
    return arrow::Status::IOError(storage::without_secrets(location),
                                  " holds no run (it has no journal); a run is at STORAGE_PATH/NAME");
  }
  ARROW_RETURN_NOT_OK(journal.status());
  ARROW_ASSIGN_OR_RAISE(std::string folder, working_folder(location));
  if (goes_on_from(folder, *journal)) return folder;
  ARROW_RETURN_NOT_OK(make_working_folder(location));
  const auto lock = storage::RunLock::acquire(folder);
  if (lock.status().IsAlreadyExists()) return folder;  // a driver here is about to take the run over
  ARROW_RETURN_NOT_OK(lock.status());
  ARROW_RETURN_NOT_OK(update_copy(*run, *journal, folder));
  return folder;
}

arrow::Status delete_object_run(const std::string& location, const std::string& folder, const ObjectRun::Tell& note) {
  ARROW_ASSIGN_OR_RAISE(const std::shared_ptr<storage::Storage> objects, storage::open_object_storage(location));
  ARROW_ASSIGN_OR_RAISE(const auto lease, acquire_lease(objects, folder, note, [](const std::string&) {}));
  const auto run = storage::with_retries(lease->guard(objects));
  ARROW_ASSIGN_OR_RAISE(auto files, run->list());
  std::erase_if(files, [](const auto& file) { return file.name.starts_with(".lease/"); });
  // No reader may believe a checkpoint of which a part is gone, and the run is one as long as it has its records.
  const auto turn = [](const storage::FileSize& file) {
    if (file.name.ends_with(std::string("/") + checkpoint::kManifestName)) return 0;
    return file.name.starts_with("records/") ? 2 : 1;
  };
  std::ranges::stable_sort(files, {}, turn);
  for (auto begin = files.begin(); begin != files.end();) {
    const auto end = std::find_if(begin, files.end(), [&](const auto& file) { return turn(file) != turn(*begin); });
    ARROW_RETURN_NOT_OK(storage::for_each_in_parallel(static_cast<size_t>(end - begin), [&](size_t index) {
      return run->remove(begin[static_cast<ptrdiff_t>(index)].name);
    }));
    begin = end;
  }
  return arrow::Status::OK();
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
  ARROW_RETURN_NOT_OK(copy_records(*run, made, Which::journal_and_history));
  return records;
}

}  // namespace paceline::controller
