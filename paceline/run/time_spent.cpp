#include "paceline/run/time_spent.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "paceline/core/json.h"
#include "paceline/core/run_layout.h"
#include "paceline/storage/local/durable.h"

namespace paceline::run {

void add(const TimeSpent& more, TimeSpent& sum) {
  sum.compute_s += more.compute_s;
  sum.data_s += more.data_s;
  sum.collectives_s += more.collectives_s;
  sum.checkpoint_s += more.checkpoint_s;
  sum.starting_s += more.starting_s;
  sum.other_s += more.other_s;
}

void add(int64_t attempt, const TimeSpent& spent, AttemptTimes& times) {
  auto found = std::ranges::find(times, attempt, &AttemptTime::attempt);
  if (found == times.end()) found = times.insert(times.end(), {.attempt = attempt});
  ++found->workers;
  add(spent, found->spent);
}

AttemptTimes read_time_spent(const std::string& run_folder) {
  const auto text = storage::read_file(run_folder + "/" + run_layout::kTimeSpent);
  const auto json = text.ok() ? decode_json(*text) : text.status();
  try {
    return json.ok() ? json->get<AttemptTimes>() : AttemptTimes();
  } catch (const Json::exception&) {
    return {};  // of another version
  }
}

arrow::Status keep_time_spent(const std::string& run_folder, const AttemptTimes& times) {
  const std::string path = run_folder + "/" + run_layout::kTimeSpent;
  const std::string unfinished = path + ".writing";  // a full disk leaves what was there
  std::ofstream file(unfinished, std::ios::binary);
  file << encode_json(Json(times)) << "\n";
  file.close();
  std::error_code problem;
  if (file) std::filesystem::rename(unfinished, path, problem);
  if (file && !problem) return arrow::Status::OK();
  std::filesystem::remove(unfinished, problem);
  return arrow::Status::IOError(path, " could not be written");
}

}  // namespace paceline::run
