#include "paceline/cli/run_lookup.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "paceline/core/config/run_config.h"
#include "paceline/core/spelling.h"
#include "paceline/run/journal.h"
#include "paceline/run/readable_folder.h"
#include "paceline/run/working_folder.h"
#include "paceline/storage/local/durable.h"
#include "paceline/views/known_runs.h"

namespace paceline::cli {

using namespace views;
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostNamed = 5;

arrow::Status ambiguous(const std::string& text, const std::vector<NamedRun>& meant) {
  std::string list;
  for (size_t i = 0; i < std::min(meant.size(), kMostNamed); ++i) list += "\n  " + meant[i].path;
  if (meant.size() > kMostNamed) list += "\n  and " + std::to_string(meant.size() - kMostNamed) + " more";
  return arrow::Status::KeyError("\"", text, "\" may be any of ", meant.size(),
                                 " runs; give more of the name, or the folder:", list);
}

}  // namespace

bool holds_run(const std::string& folder) {
  std::error_code error;
  return fs::exists(run::journal_path(folder), error);
}

arrow::Result<NamedRun> choose_run(const std::string& text, const std::vector<NamedRun>& known) {
  std::vector<NamedRun> meant;
  std::ranges::copy_if(known, std::back_inserter(meant), [&](const NamedRun& run) { return run.name == text; });
  if (meant.empty() && !text.empty()) {
    std::ranges::copy_if(known, std::back_inserter(meant),
                         [&](const NamedRun& run) { return run.name.starts_with(text); });
  }
  if (meant.size() == 1) return meant.front();
  if (meant.size() > 1) return ambiguous(text, meant);
  std::vector<std::string> names;
  for (const NamedRun& run : known) names.push_back(run.name);
  return arrow::Status::KeyError("no run is called \"", text, "\"", suggestion(text, names),
                                 known.empty() ? "" : "; `paceline list` names them");
}

std::vector<NamedRun> runs_with_names() {
  std::vector<NamedRun> runs;
  std::set<std::string> paths;
  for (track::RunRow& run : stored_names().ValueOr({})) {
    paths.insert(run.path);
    runs.push_back({std::move(run.name), std::move(run.path)});
  }
  const auto storage = storage::resolve_here(RunConfig{}.storage_path);
  if (!storage.ok()) return runs;
  std::error_code error;
  for (fs::directory_iterator entry(storage->text(), error), end; !error && entry != end; entry.increment(error)) {
    const std::string path = entry->path().string();
    if (!paths.contains(path) && holds_run(path)) runs.push_back({entry->path().filename().string(), path});
  }
  return runs;
}

arrow::Result<FoundRun> find_run(const std::string& text) {
  const auto written = storage::resolve_here(text);
  if (written.ok() && written->is_uri()) {
    ARROW_ASSIGN_OR_RAISE(std::string folder, run::readable_folder(*written));
    return FoundRun{std::move(folder), *written};
  }
  const std::string path = written.ok() ? written->text() : "";
  if (written.ok() && holds_run(path)) return FoundRun{path, run::run_location(path)};
  const std::vector<NamedRun> runs = runs_with_names();
  const bool is_name = std::ranges::find(runs, text, &NamedRun::name) != runs.end();
  const bool is_path = !is_name && (text.find('/') != std::string::npos || text == "." || text == "..");
  if (is_path) ARROW_RETURN_NOT_OK(written);
  if (is_path && std::ranges::find(runs, path, &NamedRun::path) != runs.end())
    return FoundRun{path, path};  // it is gone
  if (is_path) {
    return arrow::Status::IOError(path, " holds no run (it has no journal); a run's folder is STORAGE_PATH/NAME");
  }
  ARROW_ASSIGN_OR_RAISE(const NamedRun run, choose_run(text, runs));
  FoundRun found{run.path, run::run_location(run.path)};
  if (run::is_reader_copy(run.path)) {
    const auto copy = run::readable_folder(found.location);
    if (!copy.status().IsKeyError()) ARROW_RETURN_NOT_OK(copy.status());  // of a deleted run the store knows something
  }
  return found;
}

}  // namespace paceline::cli
