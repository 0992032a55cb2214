#include "paceline/run/hang_evidence.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "paceline/core/json.h"
#include "paceline/core/run_layout.h"
#include "paceline/storage/local/durable.h"

namespace paceline::run {
namespace {

namespace fs = std::filesystem;

std::string folder_of(const std::string& run_folder, const std::string& name) {
  return run_folder + "/" + run_layout::kHangs + "/" + name + "/";
}

arrow::Status write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  return file.flush() ? arrow::Status::OK() : arrow::Status::IOError(path, " could not be written");
}

std::string report_of(const FoundHang& hang) {
  std::string text = hang.text + "\n\n";
  for (const StandingRank& rank : hang.ranks) text += "rank " + std::to_string(rank.rank) + " " + rank.standing + "\n";
  return text;
}

// What an earlier driver kept.
FoundHang hang_in_texts(const std::string& folder) {
  FoundHang hang;
  const std::string report = storage::read_file(folder + run_layout::kHangReport).ValueOr("");
  hang.text = report.substr(0, report.find('\n'));
  const auto progress = decode_json(storage::read_file(folder + run_layout::kHangProgress).ValueOr(""));
  if (!progress.ok() || !progress->is_array()) return hang;
  for (const Json& rank : *progress) {
    try {
      StandingRank& standing = hang.ranks.emplace_back();
      standing.rank = rank.value("rank", int64_t{0});
      standing.progress = rank.get<rpc::ProcessProgress>();
      standing.standing = policy::standing_of(standing.progress);
    } catch (const Json::exception&) {
      hang.ranks.pop_back();
    }
  }
  return hang;
}

FoundHang read_verdict(const std::string& run_folder, const std::string& name) {
  const std::string folder = folder_of(run_folder, name);
  FoundHang hang;
  const auto json = decode_json(storage::read_file(folder + run_layout::kHangVerdict).ValueOr(""));
  try {
    hang = json.ok() && json->is_object() ? json->get<FoundHang>() : hang_in_texts(folder);
  } catch (const Json::exception&) {
    hang = hang_in_texts(folder);
  }
  hang.name = name;
  return hang;
}

}  // namespace

FoundHang found_hang(std::string name, int64_t attempt, const policy::HangVerdict& verdict,
                     const std::vector<policy::RankProgress>& ranks) {
  FoundHang hang{.name = std::move(name),
                 .attempt = attempt,
                 .text = verdict.text,
                 .suspects = verdict.suspects,
                 .witness = verdict.witness,
                 .certain = verdict.certain,
                 .deadlock = verdict.deadlock};
  for (const policy::RankProgress& rank : ranks) {
    hang.ranks.push_back(
        {.rank = rank.rank,
         .finished = rank.finished,
         .standing = rank.finished ? "has returned from its train loop" : policy::standing_of(rank.progress),
         .progress = rank.progress});
  }
  return hang;
}

arrow::Result<std::string> keep_hang(const std::string& run_folder, const HangEvidence& evidence) {
  const std::string name = std::string(run_layout::kHangs) + "/" + evidence.hang.name;
  ARROW_RETURN_NOT_OK(storage::make_folders_below(run_folder, name));
  const std::string folder = folder_of(run_folder, evidence.hang.name);
  std::string stacks;
  for (const stacks::WorkerStacks& worker : evidence.workers) stacks += to_text(worker) + "\n";
  arrow::Status written = write_text(folder + run_layout::kHangReport, report_of(evidence.hang));
  written &= write_text(folder + run_layout::kHangStacks, stacks);
  written &= write_text(folder + run_layout::kHangVerdict, encode_json(Json(evidence.hang)) + "\n");
  written &= write_text(folder + run_layout::kHangStackLines, stacks::encode_lines(evidence.workers));
  ARROW_RETURN_NOT_OK(written);
  return run_folder + "/" + name;
}

// Sorted: they are times.
std::vector<std::string> hang_names(const std::string& run_folder) {
  std::vector<std::string> names;
  std::error_code problem;
  for (fs::directory_iterator entry(run_folder + "/" + run_layout::kHangs, problem), end; !problem && entry != end;
       entry.increment(problem)) {
    std::error_code unknown;
    if (fs::is_directory(entry->symlink_status(unknown))) names.push_back(entry->path().filename());
  }
  std::ranges::sort(names);
  return names;
}

std::vector<FoundHang> list_hangs(const std::string& run_folder) {
  std::vector<FoundHang> hangs;
  for (const std::string& name : hang_names(run_folder)) hangs.push_back(read_verdict(run_folder, name));
  return hangs;
}

arrow::Result<HangEvidence> read_hang(const std::string& run_folder, const std::string& name) {
  const std::vector<std::string> names = hang_names(run_folder);
  if (std::ranges::find(names, name) == names.end()) {
    return arrow::Status::KeyError("the run in ", run_folder, " has no hang \"", name, "\"");
  }
  const std::string folder = folder_of(run_folder, name);
  HangEvidence evidence{.hang = read_verdict(run_folder, name)};
  evidence.workers = stacks::decode_lines(storage::read_file(folder + run_layout::kHangStackLines).ValueOr(""));
  if (evidence.workers.empty()) evidence.stacks = storage::read_file(folder + run_layout::kHangStacks).ValueOr("");
  return evidence;
}

}  // namespace paceline::run
