// DashboardAddress: where dashboards of this user are served on this machine, for runs that say so in the terminal.
//
// Each dashboard has a file in the folder `dashboards` of the state directory: its address, and the storage paths that
// it shows, a line each. The file is locked for as long as the dashboard lives, so that one that was killed is not
// found; the next one on this machine removes it. Files of other machines, which may share the folder, are passed over.
// Of several dashboards that show a run the one that began first is found; one that is stopped (Ctrl-Z) answers nobody
// and is not. Not thread-safe.
#pragma once

#include <arrow/result.h>

#include <optional>
#include <string>
#include <vector>

#include "paceline/core/posix/descriptor.h"

namespace paceline::track {

class DashboardAddress {
 public:
  /// From now on until its end others find `url`, such as "http://127.0.0.1:8265/". `storage_paths`: it shows only runs
  /// in these; empty: all. IOError where the file cannot be written
  /// or locked.
  static arrow::Result<DashboardAddress> announce(const std::string& state_directory, const std::string& url,
                                                  const std::vector<std::string>& storage_paths = {});
  ~DashboardAddress();
  DashboardAddress(DashboardAddress&&) = default;
  DashboardAddress& operator=(DashboardAddress&&) = delete;

  /// nullopt where no dashboard is served that shows a run at `location`, as the run store has it.
  static std::optional<std::string> find(const std::string& state_directory, const std::string& location);

 private:
  DashboardAddress(Descriptor file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}

  Descriptor file_;  // locked
  std::string path_;
};

/// The address of a run's page in it; `folder`: the run's, as the run store has it. `url` may end with a code that
/// opens a session first ("#code=…").
std::string run_page(const std::string& url, const std::string& folder);

}  // namespace paceline::track
