#include "paceline/run/worker_logs.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>
#include <vector>

#include "paceline/core/run_layout.h"

namespace paceline::run {
namespace {

namespace fs = std::filesystem;

constexpr double kMegabyte = 1e6;

}  // namespace

LogLimit log_limit(const RunConfig& config) {
  const double file_mb = std::min(config.log_file_mb, config.log_quota_mb);
  return {.file_bytes = std::max<int64_t>(1, std::llround(std::min(file_mb, 1e9) * kMegabyte)),
          .files = std::max<int64_t>(1, static_cast<int64_t>(std::min(config.log_quota_mb / file_mb, 1e6)))};
}

arrow::Status trim_worker_logs(const std::string& run_folder, WorkerId first, int64_t most_bytes) {
  std::map<int64_t, std::vector<std::pair<fs::path, int64_t>>> logs;
  int64_t bytes = 0;
  std::error_code error;
  for (fs::directory_iterator entry(run_folder + "/" + run_layout::kLogs, error), end; !error && entry != end;
       entry.increment(error)) {
    const int64_t worker = run_layout::worker_of_log(entry->path().filename().string());
    if (worker == 0 || worker >= first.value) continue;
    std::error_code gone;
    const auto size = static_cast<int64_t>(entry->file_size(gone));
    if (gone) continue;
    logs[worker].emplace_back(entry->path(), size);
    bytes += size;
  }
  if (error) return arrow::Status::IOError("reading ", run_folder, "/", run_layout::kLogs, ": ", error.message());
  for (const auto& [worker, files] : logs) {
    if (bytes <= most_bytes) break;
    for (const auto& [path, size] : files) {
      std::error_code ignored;  // the next attempt tries again
      if (fs::remove(path, ignored)) bytes -= size;
    }
  }
  return arrow::Status::OK();
}

}  // namespace paceline::run
