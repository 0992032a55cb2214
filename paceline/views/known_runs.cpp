#include "paceline/views/known_runs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include "paceline/core/posix/descriptor.h"
#include "paceline/core/posix/host_name.h"
#include "paceline/core/posix/process_usage.h"
#include "paceline/run/journal.h"
#include "paceline/run/reader.h"
#include "paceline/track/status_line.h"

namespace paceline::views {
namespace {

// A driver opens its run a while after its process has started; clocks are compared with this much tolerance.
constexpr double kClockTolerance = 2.0;

bool has_journal(const std::string& folder) {
  return ::access(run::journal_path(folder).c_str(), F_OK) == 0;
}

// The same of many, most of which are in one folder: it is looked up once.
class Journals {
 public:
  bool has(const std::string& folder) {
    const size_t slash = folder.rfind('/');
    if (slash == std::string::npos || slash == 0) return has_journal(folder);
    if (folder.compare(0, slash, parent_) != 0) {
      parent_ = folder.substr(0, slash);
      descriptor_ = Descriptor(::open(parent_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    }
    const std::string journal = run::journal_path(folder.substr(slash + 1));
    return descriptor_.get() >= 0 && ::faccessat(descriptor_.get(), journal.c_str(), F_OK, 0) == 0;
  }

 private:
  std::string parent_;
  Descriptor descriptor_;
};

// The indexer of a driver that was killed may not have written the last second: what the store shall know.
std::optional<track::RunRecord> catch_up(KnownRun& known) {
  if (known.driver != DriverState::gone && known.driver != DriverState::elsewhere) return std::nullopt;
  struct stat journal{};
  if (::stat(run::journal_path(known.run.path).c_str(), &journal) != 0) return std::nullopt;
  if (journal.st_size == known.run.journal_bytes) return std::nullopt;
  auto record = run::read_run_folder(known.run.path);
  if (!record.ok()) return std::nullopt;  // `paceline show` says why
  known.run = record->run;
  known.metrics = track::metrics_text(known.run.metrics);
  known.driver = driver_state(known.run);
  return *std::move(record);
}

void put(const std::vector<track::RunRecord>& records) {
  if (records.empty()) return;
  const auto path = track::user_run_store();
  if (!path.ok()) return;
  auto store = track::RunStore::open(*path);
  if (!store.ok()) return;
  for (const track::RunRecord& record : records) (void)store->put(record);
}

}  // namespace

DriverState driver_state(const track::RunRow& run) {
  if (track::is_over(run)) return DriverState::none;
  if (run.host != host_name()) return DriverState::elsewhere;
  const auto process = process_usage(static_cast<pid_t>(run.pid));
  const bool same = process.ok() && process->started <= run.opened + kClockTolerance;
  return same ? DriverState::alive : DriverState::gone;
}

std::string KnownRun::state_text() const {
  if (gone) return "deleted";
  if (driver == DriverState::gone) return "driver died";
  return run.state;
}

arrow::Result<track::RunRecord> recorded_run(const std::string& folder) {
  auto record = run::read_run_folder(folder);
  if (has_journal(folder)) return record;
  ARROW_ASSIGN_OR_RAISE(const std::string path, track::user_run_store());
  ARROW_ASSIGN_OR_RAISE(const auto store, track::RunStore::open_for_reading(path));
  ARROW_ASSIGN_OR_RAISE(auto stored, store.find(folder));
  return stored ? *std::move(stored) : std::move(record);
}

KnownRun with_fate(track::RunRow run) {
  KnownRun known{.run = std::move(run)};
  known.gone = !has_journal(known.run.path);
  if (known.gone) return known;
  known.driver = driver_state(known.run);
  if (auto record = catch_up(known)) put({*std::move(record)});
  return known;
}

arrow::Result<std::vector<track::RunRow>> stored_names() {
  ARROW_ASSIGN_OR_RAISE(const std::string path, track::user_run_store());
  if (::access(path.c_str(), F_OK) != 0) return std::vector<track::RunRow>{};
  ARROW_ASSIGN_OR_RAISE(const auto store, track::RunStore::open_for_reading(path));
  return store.names();
}

arrow::Status visit_known_runs(track::RunStore::Metrics wanted, const std::function<bool(KnownRun known)>& visit) {
  ARROW_ASSIGN_OR_RAISE(const std::string path, track::user_run_store());
  if (::access(path.c_str(), F_OK) != 0) return arrow::Status::OK();
  std::vector<track::RunRecord> news;
  {
    ARROW_ASSIGN_OR_RAISE(const auto store, track::RunStore::open_for_reading(path));
    Journals journals;
    ARROW_RETURN_NOT_OK(store.visit(wanted, [&](track::RunRow run, std::string metrics) {
      KnownRun known{.run = std::move(run), .metrics = std::move(metrics)};
      known.gone = !journals.has(known.run.path);
      if (!known.gone) known.driver = driver_state(known.run);
      if (auto record = catch_up(known)) news.push_back(*std::move(record));
      return visit(std::move(known));
    }));
  }
  put(news);  // nobody reads the store any more
  return arrow::Status::OK();
}

arrow::Result<std::vector<KnownRun>> known_runs() {
  std::vector<KnownRun> runs;
  ARROW_RETURN_NOT_OK(visit_known_runs(track::RunStore::Metrics::values, [&runs](KnownRun known) {
    runs.push_back(std::move(known));
    return true;
  }));
  return runs;
}

}  // namespace paceline::views
