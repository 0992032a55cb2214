// Which files hold what a run's workers and its controller wrote.
#pragma once

#include <arrow/result.h>

#include <optional>
#include <string>
#include <vector>

#include "paceline/track/run_record.h"

namespace paceline::views {

/// What to show: the controller's log, or the workers' of one rank or of all, of one attempt or of the last.
struct LogChoice {
  bool controller = false;
  std::optional<int64_t> rank;
  std::optional<int64_t> attempt;
};

struct LogFile {
  std::string path;
  std::optional<int64_t> rank;  // nullopt: the controller's, or of a worker that never had a rank
  int64_t worker = 0;           // 0: the controller's

  bool operator==(const LogFile&) const = default;
};

/// The logs that `choice` selects, by rank, whether or not the files exist. KeyError when the run has no such rank or
/// attempt, naming those that it has. Pure.
arrow::Result<std::vector<LogFile>> choose_logs(const track::RunRecord& record, const LogChoice& choice);

/// The pieces of a rotated log ("worker_7.log.2", "worker_7.log.1", "worker_7.log"), the oldest first.
std::vector<std::string> pieces_of(const std::string& path);

}  // namespace paceline::views
