#include "paceline/run/data_figures.h"

#include <algorithm>
#include <filesystem>

#include "paceline/core/json.h"
#include "paceline/core/run_layout.h"
#include "paceline/storage/local/durable.h"

namespace paceline::run {

std::vector<DataFigures> read_data_figures(const std::string& run_folder) {
  std::vector<DataFigures> all;
  std::error_code problem;
  const std::filesystem::path folder = std::filesystem::path(run_folder) / run_layout::kData;
  for (const auto& entry : std::filesystem::directory_iterator(folder, problem)) {
    if (entry.path().extension() != ".json") continue;
    const auto text = storage::read_file(entry.path());
    const auto json = text.ok() ? decode_json(*text) : text.status();
    if (!json.ok()) continue;
    try {
      all.push_back(json->get<DataFigures>());
    } catch (const Json::exception&) {
      continue;  // of another version
    }
  }
  std::ranges::stable_sort(all, {}, &DataFigures::time);
  return all;
}

}  // namespace paceline::run
