#include "paceline/run/collectives.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>

#include "paceline/core/run_layout.h"
#include "paceline/storage/local/durable.h"

namespace paceline::run {
namespace {

namespace fs = std::filesystem;

// The number behind `prefix`; -1 for other names.
int64_t number_behind(std::string_view prefix, std::string_view name) {
  if (!name.starts_with(prefix)) return -1;
  name.remove_prefix(prefix.size());
  int64_t number = -1;
  const auto [end, problem] = std::from_chars(name.data(), name.data() + name.size(), number);
  return problem == std::errc() && end == name.data() + name.size() ? number : -1;
}

}  // namespace

arrow::Status keep_collectives(const std::string& run_folder, Attempt attempt, const KeptCollectives& kept) {
  const std::string folder = run_layout::collectives_of(attempt);
  const std::string whole = run_folder + "/" + folder;
  const std::string path = whole + "/" + run_layout::kRankOfCollectives + std::to_string(kept.rank);
  // A name in which PyTorch's tools see no rank.
  const std::string unfinished = whole + "/.writing_" + std::to_string(kept.rank);
  ARROW_RETURN_NOT_OK(storage::make_folders_below(run_folder, folder));
  std::ofstream file(unfinished, std::ios::binary);
  file << encode_flight_recording(kept);
  file.close();
  std::error_code problem;
  if (file) fs::rename(unfinished, path, problem);
  if (!file || problem) {
    const std::string why = problem ? ": " + problem.message() : "";
    fs::remove(unfinished, problem);
    return arrow::Status::IOError("the last collectives of rank ", kept.rank, " could not be written to ", path, why);
  }
  fs::remove_all(run_folder + "/" + run_layout::collectives_of(Attempt{attempt.value - kAttemptsKept}), problem);
  return arrow::Status::OK();
}

arrow::Result<CollectivesOfAttempt> read_kept_collectives(const std::string& run_folder) {
  std::error_code problem;
  CollectivesOfAttempt found;
  const fs::path all = fs::path(run_folder) / run_layout::kCollectives;
  for (const auto& entry : fs::directory_iterator(all, problem)) {
    const int64_t number = number_behind(run_layout::kAttemptOfCollectives, entry.path().filename().native());
    found.attempt.value = std::max(found.attempt.value, number);
  }
  if (found.attempt.value == 0) return found;
  const fs::path folder = fs::path(run_folder) / run_layout::collectives_of(found.attempt);
  for (const auto& entry : fs::directory_iterator(folder, problem)) {
    if (number_behind(run_layout::kRankOfCollectives, entry.path().filename().native()) < 0) continue;
    ARROW_ASSIGN_OR_RAISE(const std::string bytes, storage::read_file(entry.path()));
    auto kept = decode_flight_recording(bytes);
    if (!kept.ok()) return kept.status().WithMessage(entry.path().native(), ": ", kept.status().message());
    found.ranks.push_back(*std::move(kept));
  }
  std::ranges::sort(found.ranks, {}, &KeptCollectives::rank);
  return found;
}

}  // namespace paceline::run
