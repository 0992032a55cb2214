#include "paceline/views/log_files.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "paceline/core/run_layout.h"
#include "paceline/policy/failure_text.h"

namespace paceline::views {
namespace {

arrow::Status lacking(const track::RunRecord& record, const char* what, int64_t wanted,
                      const std::set<int64_t>& there) {
  const std::vector<int64_t> numbers(there.begin(), there.end());
  return arrow::Status::KeyError("run ", record.run.name, " has no ", what, " ", wanted, "; it has ",
                                 numbers.empty() ? std::string("none yet") : policy::ranges_text(numbers));
}

}  // namespace

arrow::Result<std::vector<LogFile>> choose_logs(const track::RunRecord& record, const LogChoice& choice) {
  const std::string folder = record.run.path + "/";
  if (choice.controller) return std::vector<LogFile>{{folder + run_layout::kControllerLog, std::nullopt, 0}};
  const int64_t attempt = choice.attempt.value_or(record.run.attempt);
  std::set<int64_t> attempts, ranks;
  std::vector<LogFile> logs;
  for (const auto& [id, worker] : record.workers) {
    attempts.insert(worker.attempt);
    if (worker.attempt != attempt) continue;
    if (worker.rank >= 0) ranks.insert(worker.rank);
    if (choice.rank && worker.rank != *choice.rank) continue;
    const auto rank = worker.rank >= 0 ? std::optional(worker.rank) : std::nullopt;
    logs.push_back({folder + run_layout::worker_log(WorkerId{id}), rank, id});
  }
  if (choice.attempt && !attempts.contains(attempt)) return lacking(record, "attempt", attempt, attempts);
  if (choice.rank && logs.empty()) return lacking(record, "rank", *choice.rank, ranks);
  std::ranges::stable_sort(logs, {}, [](const LogFile& log) { return log.rank.value_or(-1); });
  return logs;
}

std::vector<std::string> pieces_of(const std::string& path) {
  std::vector<std::string> pieces{path};
  std::error_code error;
  for (int number = 1; std::filesystem::exists(path + "." + std::to_string(number), error); ++number) {
    pieces.push_back(path + "." + std::to_string(number));
  }
  std::ranges::reverse(pieces);
  return pieces;
}

}  // namespace paceline::views
