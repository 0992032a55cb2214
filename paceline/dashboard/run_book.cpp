#include "paceline/dashboard/run_book.h"

#include <sys/stat.h>

#include <algorithm>

#include "paceline/core/clock.h"
#include "paceline/run/journal.h"
#include "paceline/run/readable_folder.h"
#include "paceline/run/working_folder.h"
#include "paceline/track/metrics_history.h"
#include "paceline/track/run_id.h"
#include "paceline/track/run_store.h"
#include "paceline/track/storage_path.h"

namespace paceline::dashboard {
namespace {

// How old a copy of a run that is elsewhere may be.
constexpr double kCopyAge = 10;

// 0 for a file that is not there.
int64_t size_of(const std::string& path) {
  struct stat what{};
  return ::stat(path.c_str(), &what) == 0 ? what.st_size : 0;
}

// Whether the store tells all that the folder holds, or there is no folder any more.
bool tells_all(const track::RunRow& run) {
  const int64_t journal = size_of(run::journal_path(run.path));
  return journal == 0 || (journal == run.journal_bytes && size_of(track::history_path(run.path)) == run.history_bytes);
}

arrow::Result<std::optional<track::RunRecord>> stored_record(const std::string& folder) {
  ARROW_ASSIGN_OR_RAISE(const std::string path, track::user_run_store());
  ARROW_ASSIGN_OR_RAISE(const auto store, track::RunStore::open_for_reading(path));
  return store.find(folder);
}

}  // namespace

arrow::Result<views::RunPage> RunBook::list(views::RunSelection selection) const {
  selection.storage_paths = storage_paths_;
  return views::list_runs(selection, [](const std::function<bool(views::KnownRun)>& visit) {
    return views::visit_known_runs(track::RunStore::Metrics::values, visit);
  });
}

arrow::Result<std::string> RunBook::folder_of(const std::string& id) {
  const auto unknown = [&id] { return arrow::Status::KeyError("no run has the id \"", id, "\""); };
  if (!track::is_run_id(id)) return unknown();
  const std::lock_guard lock(mutex_);
  if (const auto known = folders_.find(id); known != folders_.end()) return known->second;
  ARROW_ASSIGN_OR_RAISE(const auto runs, views::stored_names());
  for (const track::RunRow& run : runs) {
    if (!track::is_below(run::run_location(run.path).text(), storage_paths_)) continue;
    folders_[track::run_id(run.path)] = run.path;
  }
  const auto found = folders_.find(id);
  if (found == folders_.end()) return unknown();
  return found->second;
}

arrow::Result<std::shared_ptr<RunBook::OpenRun>> RunBook::open(const std::string& id) {
  ARROW_ASSIGN_OR_RAISE(const std::string folder, folder_of(id));
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(open_runs_, id, [](const auto& entry) { return entry.first; });
  if (found != open_runs_.end()) {
    open_runs_.splice(open_runs_.begin(), open_runs_, found);
  } else {
    open_runs_.emplace_front(id, std::make_shared<OpenRun>(folder));
    if (open_runs_.size() > kMostOpen) open_runs_.pop_back();  // who uses it still has it
  }
  return open_runs_.front().second;
}

arrow::Result<const track::RunRecord*> RunBook::current_record(OpenRun& run) {
  const double now = to_seconds(SystemClock().now());
  if (run::is_reader_copy(run.folder) && now - run.copied > kCopyAge) {
    run.copied = now;
    (void)run::readable_folder(run::run_location(run.folder));  // what was copied before is better than nothing
  }
  if (run.reader == nullptr) {
    const bool is_there = size_of(run::journal_path(run.folder)) != 0;
    if (run.stored != nullptr && is_there && tells_all(run.stored->run)) return run.stored.get();
    auto stored = stored_record(run.folder);
    if (stored.ok() && *stored && tells_all((*stored)->run)) {
      run.stored = std::make_unique<track::RunRecord>(**std::move(stored));
      return run.stored.get();
    }
    run.stored.reset();
    run.reader = std::make_unique<run::RunReader>(run.folder);
  }
  const auto read = run.reader->read();
  if (read.ok()) return &run.reader->record();
  run.reader.reset();
  if (size_of(run::journal_path(run.folder)) != 0) return read.status();
  auto stored = stored_record(run.folder);  // of a folder that was deleted, it tells what it knows
  if (!stored.ok() || !*stored) return arrow::Status::KeyError("the run in ", run.folder, " was removed");
  run.stored = std::make_unique<track::RunRecord>(**std::move(stored));
  return run.stored.get();
}

arrow::Status RunBook::with_record(const std::string& id,
                                   const std::function<arrow::Status(const track::RunRecord&)>& use) {
  ARROW_ASSIGN_OR_RAISE(const auto run, open(id));
  const std::lock_guard lock(run->mutex);
  ARROW_ASSIGN_OR_RAISE(const track::RunRecord* record, current_record(*run));
  return use(*record);
}

arrow::Status RunBook::with_curves(const std::string& id,
                                   const std::function<arrow::Status(const views::MetricCurves&)>& use) {
  ARROW_ASSIGN_OR_RAISE(const auto run, open(id));
  const std::lock_guard lock(run->mutex);
  if (run->curves == nullptr) run->curves = std::make_unique<views::MetricCurves>(run->folder);
  ARROW_RETURN_NOT_OK(run->curves->read());
  return use(*run->curves);
}

}  // namespace paceline::dashboard
