#include "paceline/run/object_run.h"

#include <algorithm>

#include "paceline/checkpoint/manifest.h"
#include "paceline/core/run_layout.h"
#include "paceline/run/journal.h"
#include "paceline/run/working_folder.h"
#include "paceline/storage/local/durable.h"
#include "paceline/storage/objects/arrow_storage.h"
#include "paceline/storage/objects/parallel.h"
#include "paceline/storage/objects/retrying_storage.h"
#include "paceline/storage/storage_proof.h"

namespace paceline::run {
namespace {

constexpr std::chrono::seconds kFinishPatience{120};
constexpr std::chrono::seconds kFirstLook{30};  // for what a driver before had sent
constexpr std::chrono::seconds kSamplesRest{300};

bool is_in(const char* folder, const std::string& name) {
  return name.starts_with(std::string(folder) + "/");
}

// Whether nothing but claims is at the run's location.
arrow::Result<bool> is_gone(const storage::Storage& run) {
  ARROW_ASSIGN_OR_RAISE(const auto files, run.list());
  return std::ranges::all_of(files, [](const auto& file) { return file.name.starts_with('.'); });
}

// Where the working folder is not right, another machine has had the run since, or this one never had it; or the run
// has been deleted, and its name starts afresh.
arrow::Status restore(const storage::Storage& run, const std::string& folder, std::optional<bool> held_last) {
  const auto journal = storage::read_mirrored(run, run_layout::kJournal);
  if (journal.status().IsKeyError()) {
    ARROW_ASSIGN_OR_RAISE(const bool gone, is_gone(run));
    return gone || is_reader_copy(folder) ? clear_working_folder(folder) : arrow::Status::OK();
  }
  ARROW_RETURN_NOT_OK(journal.status());
  if (is_drivers_own(folder, *journal, held_last)) return arrow::Status::OK();
  ARROW_RETURN_NOT_OK(clear_working_folder(folder));
  ARROW_ASSIGN_OR_RAISE(const auto records, storage::mirrored_files(run));
  return copy_records(run, records, folder);
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
                                 folder + "/" + run_layout::kClaim, std::move(options));
}

}  // namespace

arrow::Result<std::unique_ptr<ObjectRun>> ObjectRun::take(const storage::Location& location, const std::string& folder,
                                                          const Tell& note, Tell on_lost) {
  ARROW_ASSIGN_OR_RAISE(const std::shared_ptr<storage::Storage> objects, storage::open_object_storage(location));
  std::unique_ptr<ObjectRun> taken(new ObjectRun);
  ARROW_ASSIGN_OR_RAISE(taken->lease_, acquire_lease(objects, folder, note, std::move(on_lost)));
  ARROW_ASSIGN_OR_RAISE(taken->objects_, storage::with_retries(taken->lease_->guard(objects)));
  ARROW_RETURN_NOT_OK(restore(*taken->objects_, folder, taken->lease_->was_held_last_here()));
  ARROW_RETURN_NOT_OK(mark_as_drivers(folder));
  // What comes in numbers, one or more for each worker.
  const auto takes_turns = [](const std::string& name) {
    return name != run_layout::kControllerLog &&
           (is_in(run_layout::kLogs, name) || is_in(run_layout::kArtifacts, name) || is_in(run_layout::kSamples, name));
  };
  // Samples change each second.
  const auto rests = [](const std::string& name) {
    return std::chrono::milliseconds(is_in(run_layout::kSamples, name) ? kSamplesRest : std::chrono::seconds(0));
  };
  storage::FileMirrorOptions options{.takes_turns = takes_turns, .rests = rests};
  if (taken->lease_->may_meet_late_writes()) options.looks_again = kFirstLook;
  taken->mirror_ = std::make_unique<storage::FileMirror>(
      taken->objects_, folder, [folder] { return files_of_run(folder); }, std::move(options));
  return taken;
}

std::string ObjectRun::folder_ending() const {
  return lease_->may_meet_late_writes() ? run_layout::generation_ending(lease_->generation()) : "";
}

void ObjectRun::push() {
  mirror_->push();
}

arrow::Status ObjectRun::finish(bool storage_hangs) {
  (void)objects_->remove(run_layout::kStorageProof);  // the next start writes another
  arrow::Status copied = mirror_->finish(kFinishPatience);
  if (storage_hangs || !copied.ok()) lease_->abandon();
  return copied;
}

arrow::Status delete_object_run(const storage::Location& location, const std::string& folder,
                                const ObjectRun::Tell& note) {
  ARROW_ASSIGN_OR_RAISE(const std::shared_ptr<storage::Storage> objects, storage::open_object_storage(location));
  ARROW_ASSIGN_OR_RAISE(const auto lease, acquire_lease(objects, folder, note, [](const std::string&) {}));
  ARROW_ASSIGN_OR_RAISE(const auto run, storage::with_retries(lease->guard(objects)));
  ARROW_ASSIGN_OR_RAISE(auto files, run->list());
  std::erase_if(files, [](const auto& file) { return file.name.starts_with(std::string(run_layout::kClaims) + "/"); });
  // No reader may believe a checkpoint of which a part is gone, and the run is one as long as it has its records.
  const auto turn = [](const storage::FileSize& file) {
    for (const char* manifest : {checkpoint::kManifestName, checkpoint::kFirstManifestName}) {
      if (file.name.ends_with(std::string("/") + manifest)) return 0;
    }
    return file.name.starts_with(std::string(run_layout::kRecords) + "/") ? 2 : 1;
  };
  std::ranges::stable_sort(files, {}, turn);
  for (auto begin = files.begin(); begin != files.end();) {
    const auto end = std::find_if(begin, files.end(), [&](const auto& file) { return turn(file) != turn(*begin); });
    ARROW_RETURN_NOT_OK(storage::for_each_in_parallel(static_cast<size_t>(end - begin), [&](size_t index) {
      return run->remove(begin[static_cast<ptrdiff_t>(index)].name);
    }));
    begin = end;
  }
  lease->end_without_trace();
  return arrow::Status::OK();
}

}  // namespace paceline::run
