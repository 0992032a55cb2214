// Which run is meant by what a user wrote on the command line.
#pragma once

#include <arrow/result.h>

#include <string>
#include <vector>

#include "paceline/storage/location.h"

namespace paceline::cli {

/// What looking a run up needs to know of it.
struct NamedRun {
  std::string name;
  std::string path;  // its folder

  bool operator==(const NamedRun&) const = default;
};

/// The run called `text`, else the only one whose name begins so. Of several runs with that whole name (in several
/// storage paths) none is chosen. KeyError: none or several; the message names them, or the nearest name. Pure.
arrow::Result<NamedRun> choose_run(const std::string& text, const std::vector<NamedRun>& known);

/// Runs that can be meant by name: those in the run store, also where their folder is gone, and those in the default
/// storage path. A run store that cannot be read costs its runs, not the others.
std::vector<NamedRun> runs_with_names();

/// Whether the folder has a run's journal.
bool holds_run(const std::string& folder);

struct FoundRun {
  /// A folder on this machine; for a run in an object store that another machine has, a copy, brought up to date.
  std::string folder;
  /// Where the run is: the folder, or a URI, with its keys where they were given.
  storage::Location location;
};

/// The run that `text` means: a folder that holds a run, or did so, the URI of a run in an object store, else a name or
/// a beginning of a name. KeyError as choose_run(), and for a URI that holds no run; IOError for such a path.
arrow::Result<FoundRun> find_run(const std::string& text);

}  // namespace paceline::cli
