// DashboardAddress: where this user's dashboard is served on this machine, for runs that say so in the terminal.
//
// It stands in a file of the state directory, with the storage paths that it shows, a line each; that is locked for as
// long as the dashboard lives: one that was killed is not found. Of several dashboards the first is found. Not
// thread-safe.
#pragma once

#include <arrow/result.h>

#include <optional>
#include <string>
#include <vector>

#include "paceline/core/posix/descriptor.h"

namespace paceline::track {

class DashboardAddress {
 public:
  /// From now on until its end others find `url`, such as "http://127.0.0.1:8265/", where no other dashboard is found.
  /// `storage_paths`: it shows only runs in these; empty: all. IOError where the file cannot be written.
  static arrow::Result<DashboardAddress> announce(const std::string& state_directory, const std::string& url,
                                                  const std::vector<std::string>& storage_paths = {});

  /// nullopt where no dashboard is served that shows a run at `location`, as the run store has it.
  static std::optional<std::string> find(const std::string& state_directory, const std::string& location);

 private:
  explicit DashboardAddress(Descriptor file) : file_(std::move(file)) {}

  Descriptor file_;  // locked; none where another dashboard is announced
};

/// The address of a run's page in it; `folder`: the run's, as the run store has it. `url` may end with a code that
/// opens a session first ("#code=…").
std::string run_page(const std::string& url, const std::string& folder);

}  // namespace paceline::track
