#include "paceline/run/data_figures.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "paceline/core/json.h"
#include "paceline/core/run_layout.h"
#include "paceline/storage/local/durable.h"

namespace paceline::run {

namespace {

// Of "process_7.json"; 0 for what is called otherwise.
int64_t number_of(const std::string& stem) {
  const size_t at = stem.rfind('_');
  int64_t number = 0;
  if (at != std::string::npos) std::from_chars(stem.data() + at + 1, stem.data() + stem.size(), number);
  return number;
}

}  // namespace

std::vector<ProcessFigures> read_data_figures(const std::string& run_folder) {
  std::vector<ProcessFigures> all;
  std::error_code problem;
  const std::filesystem::path folder = std::filesystem::path(run_folder) / run_layout::kData;
  for (const auto& entry : std::filesystem::directory_iterator(folder, problem)) {
    if (entry.path().extension() != ".json") continue;
    const auto text = storage::read_file(entry.path());
    const auto json = text.ok() ? decode_json(*text) : text.status();
    if (!json.ok()) continue;
    try {
      all.push_back({.process = number_of(entry.path().stem()), .figures = json->get<DataFigures>()});
    } catch (const Json::exception&) {
      continue;  // of another version
    }
  }
  std::ranges::stable_sort(all, {}, [](const ProcessFigures& one) { return one.figures.time; });
  return all;
}

}  // namespace paceline::run
