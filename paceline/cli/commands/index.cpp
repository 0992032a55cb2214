// paceline index [FOLDER…] [--json]
#include "paceline/cli/commands/index.h"

#include <unistd.h>

#include <filesystem>
#include <map>
#include <set>

#include "paceline/cli/command.h"
#include "paceline/cli/run_lookup.h"
#include "paceline/cli/table.h"
#include "paceline/core/config/run_config.h"
#include "paceline/core/run_layout.h"
#include "paceline/run/readable_folder.h"
#include "paceline/run/reader.h"
#include "paceline/storage/local/durable.h"
#include "paceline/storage/location.h"
#include "paceline/storage/objects/file_mirror.h"
#include "paceline/storage/storage.h"
#include "paceline/track/run_store.h"

namespace paceline::cli {
namespace {

namespace fs = std::filesystem;

// The run in the object store, or those below it: their folders on this machine.
arrow::Result<std::vector<std::string>> runs_at(const storage::Location& location) {
  static const std::string kJournal = "/" + storage::mirrored_segment(run_layout::kJournal, 0);
  ARROW_ASSIGN_OR_RAISE(const auto storage, storage::open_storage(location));
  ARROW_ASSIGN_OR_RAISE(const auto files, storage->list());
  std::vector<std::string> found;
  for (const auto& file : files) {
    const std::string name = "/" + file.name;
    if (!name.ends_with(kJournal)) continue;
    const std::string run = name.substr(0, name.size() - kJournal.size());
    ARROW_ASSIGN_OR_RAISE(found.emplace_back(),
                          run::readable_folder(run.empty() ? location : storage::join(location, run.substr(1))));
  }
  return found;
}

// The folder itself, or the run folders in it.
arrow::Result<std::vector<std::string>> run_folders_in(const std::string& folder) {
  if (holds_run(folder)) return std::vector{folder};
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (holds_run(entry->path())) found.push_back(entry->path().string());
  }
  if (error) return arrow::Status::IOError("reading ", folder, ": ", error.message());
  return found;
}

// The runs at what a user wrote.
arrow::Result<std::vector<std::string>> runs_of(const std::string& place) {
  ARROW_ASSIGN_OR_RAISE(const storage::Location location, storage::resolve_here(place));
  return location.is_uri() ? runs_at(location) : run_folders_in(location.text());
}

// What the store knew before, and the store to write into: a new one in place of one that cannot be used.
arrow::Result<track::RunStore> open_store(const std::string& path, IndexOutcome& outcome) {
  auto store = track::RunStore::open(path);
  if (!store.status().IsInvalid()) return store;
  ARROW_ASSIGN_OR_RAISE(outcome.set_aside, track::set_run_store_aside(path));
  return track::RunStore::open(path);
}

std::string canonical(const std::string& path) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  return error ? path : real.string();
}

// Where to look when no folder is named: where known runs are, and where runs go by default.
std::vector<std::string> usual_places(const std::vector<track::RunRow>& known) {
  std::set<std::string> places;
  for (const track::RunRow& run : known) places.insert(fs::path(run.path).parent_path().string());
  const auto usual = storage::resolve_here(RunConfig{}.storage_path);
  if (usual.ok()) places.insert(usual->text());
  std::error_code error;
  std::erase_if(places, [&error](const std::string& place) { return !fs::is_directory(place, error); });
  return {places.begin(), places.end()};
}

// Every folder to be read. One that is reached in two ways goes by the path under which it is known.
std::set<std::string> folders_to_read(const std::vector<std::string>& given, const std::vector<track::RunRow>& known,
                                      IndexOutcome& outcome) {
  std::map<std::string, std::string> known_paths;
  for (const track::RunRow& run : known) known_paths.emplace(canonical(run.path), run.path);
  std::set<std::string> paths;
  if (given.empty()) {
    for (const auto& [real, path] : known_paths) paths.insert(path);
  }
  for (const std::string& place : given.empty() ? usual_places(known) : given) {
    const auto found = runs_of(place);
    if (!found.ok()) outcome.problems.push_back({storage::Location(place).text(), found.status().message()});
    for (const std::string& one : found.ValueOr({})) {
      const auto alias = known_paths.find(canonical(one));
      paths.insert(alias == known_paths.end() ? one : alias->second);
    }
  }
  return paths;
}

}  // namespace

arrow::Result<IndexOutcome> index_runs(const std::vector<std::string>& given) {
  IndexOutcome outcome;
  ARROW_ASSIGN_OR_RAISE(const std::string path, track::user_run_store());
  ARROW_ASSIGN_OR_RAISE(track::RunStore store, open_store(path, outcome));
  ARROW_ASSIGN_OR_RAISE(const auto known, store.names());
  for (const std::string& folder : folders_to_read(given, known, outcome)) {
    if (!holds_run(folder)) {
      ++outcome.gone;
      continue;
    }
    const auto record = run::read_run_folder(folder);
    if (!record.ok()) {
      outcome.problems.push_back({folder, record.status().message()});
      continue;
    }
    ARROW_RETURN_NOT_OK(store.put(*record));
    ++outcome.indexed;
  }
  return outcome;
}

namespace {

std::string text_of(const IndexOutcome& outcome) {
  std::string text;
  if (!outcome.set_aside.empty()) {
    text += "the run store could not be used and was replaced; the old one is " + outcome.set_aside +
            "; now index the storage paths that you use besides the default one\n";
  }
  text += std::to_string(outcome.indexed) + (outcome.indexed == 1 ? " run" : " runs") + " indexed";
  if (outcome.gone > 0) text += ", " + std::to_string(outcome.gone) + " without a folder (`paceline prune --gone`)";
  text += "\n";
  for (const IndexProblem& problem : outcome.problems) {
    text += "  not indexed: " + printable(problem.path) + ": " + problem.error + "\n";
  }
  return text;
}

Json json_of(const IndexOutcome& outcome) {
  Json json = {{"indexed", outcome.indexed},
               {"gone", outcome.gone},
               {"set_aside", outcome.set_aside},
               {"problems", Json::array()}};
  for (const IndexProblem& problem : outcome.problems) {
    json["problems"].push_back({{"path", problem.path}, {"error", problem.error}});
  }
  return json;
}

int run(const std::vector<std::string>& folders, bool as_json) {
  const auto outcome = index_runs(folders);
  if (!outcome.ok()) return report(outcome.status());
  print(as_json ? encode_json(json_of(*outcome)) + "\n" : text_of(*outcome));
  return outcome->problems.empty() ? kDone : kFailed;
}

}  // namespace

void add_index(CLI::App& program, int& exit_code) {
  CLI::App* command = program.add_subcommand(
      "index",
      "Read run folders into the run store: after copying runs from another machine, or when `list` misses\n"
      "some. A damaged run store is replaced");
  command->footer(
      "Example: paceline index /data/results\n"
      "Exit code 1: a folder could not be read; the others are indexed.");
  const auto folders = std::make_shared<std::vector<std::string>>();
  command
      ->add_option(
          "FOLDER", *folders,
          "Run folders, storage paths that hold runs, or URIs of either; by default the storage paths of all known\n"
          "runs, and the default storage path")
      ->type_name("");
  const auto as_json = add_json(*command);
  command->callback([folders, as_json, &exit_code] { exit_code = run(*folders, *as_json); });
}

}  // namespace paceline::cli
