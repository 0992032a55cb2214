#include "paceline/cli/commands/removal.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <map>

#include "paceline/run/folder_lease.h"
#include "paceline/run/journal.h"
#include "paceline/run/object_run.h"
#include "paceline/run/working_folder.h"
#include "paceline/storage/local/durable.h"
#include "paceline/storage/local/run_lock.h"

namespace paceline::cli {

using namespace views;
namespace {

namespace fs = std::filesystem;

arrow::Status forget(const std::string& folder) {
  ARROW_ASSIGN_OR_RAISE(const std::string path, track::user_run_store());
  std::error_code error;
  if (!fs::exists(path, error)) return arrow::Status::OK();
  ARROW_ASSIGN_OR_RAISE(auto store, track::RunStore::open(path));
  return store.remove(folder);
}

// Away under a name of its own first: there is no time at which half a run stands under its name.
arrow::Status delete_folder(const std::string& folder) {
  std::error_code error;
  const fs::path real = fs::canonical(folder, error);
  if (error) return arrow::Status::IOError("finding ", folder, ": ", error.message());
  const std::string doomed = (real.parent_path() / ("." + real.filename().string() + ".deleted")).string();
  ARROW_RETURN_NOT_OK(storage::remove_all(doomed));  // of an earlier try that was interrupted
  ARROW_RETURN_NOT_OK(storage::move(real.string(), doomed));
  if (fs::is_symlink(fs::symlink_status(folder, error))) fs::remove(folder, error);
  return storage::remove_all(doomed);
}

bool may_be_pruned(const KnownRun& known) {
  return known.gone || known.driver == DriverState::none || known.driver == DriverState::gone;
}

bool has_failed(const KnownRun& known) {
  const std::optional<FinalState> ended = final_state_of(known.run.state);
  return known.driver == DriverState::gone || (ended && ended != FinalState::finished);
}

}  // namespace

arrow::Status remove_run(const FoundRun& run) {
  const std::string& folder = run.folder;
  std::error_code error;
  if (!fs::exists(run::journal_path(folder), error)) {
    if (run::is_reader_copy(folder)) ARROW_RETURN_NOT_OK(storage::remove_all(folder));
    return forget(folder);
  }
  {
    // Nobody can start the run while it is being deleted.
    ARROW_ASSIGN_OR_RAISE(const auto lock, storage::RunLock::acquire(folder));
    const auto note = [](const std::string& text) { std::cerr << text << std::endl; };
    if (run.location.is_uri()) {
      ARROW_RETURN_NOT_OK(run::delete_object_run(run.location, folder, note));
    } else if (run::may_be_leased(folder)) {
      ARROW_ASSIGN_OR_RAISE(const auto lease, run::lease_folder(folder, {.note = note}));
      lease->abandon();  // its claim stays while the folder does, and is not written again behind it
    }
    ARROW_RETURN_NOT_OK(delete_folder(folder));
  }
  return forget(folder);
}

std::vector<KnownRun> select_for_pruning(const std::vector<KnownRun>& runs, const PruneCriteria& criteria, double now) {
  std::vector<KnownRun> selected;
  std::ranges::copy_if(runs, std::back_inserter(selected), [&](const KnownRun& known) {
    if (!may_be_pruned(known)) return false;
    if (criteria.gone && !known.gone) return false;
    if (criteria.failed && !has_failed(known)) return false;
    return !criteria.older_than_s || now - known.run.since > *criteria.older_than_s;
  });
  return selected;
}

arrow::Result<double> parse_age(const std::string& text) {
  static const std::map<std::string, double> kUnits = {
      {"s", 1}, {"min", 60}, {"h", 3600}, {"d", 86400}, {"w", 7 * 86400}};
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto unit = kUnits.find(std::string(end, text.data() + text.size()));
  if (error == std::errc() && unit != kUnits.end() && std::isfinite(number) && number >= 0)
    return number * unit->second;
  return arrow::Status::Invalid("\"", text, "\" is no age; wanted a number with s, min, h, d or w, such as 30d");
}

}  // namespace paceline::cli
