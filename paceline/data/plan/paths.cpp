#include "paceline/data/plan/paths.h"

#include <arrow/filesystem/filesystem.h>

#include <set>

#include "paceline/data/file/files.h"
#include "paceline/storage/location.h"

namespace paceline::data {
namespace {

// Of an object store, each a request.
constexpr size_t kMostAsked = 16;

// Calls `what` with each step that reads paths, once.
template <typename What>
void for_each_reader(const Plan& plan, const What& what) {
  std::set<const Plan*> known;
  std::vector<const Plan*> left = {&plan};
  while (!left.empty()) {
    const Plan& step = *left.back();
    left.pop_back();
    if (!known.insert(&step).second) continue;
    if (step.options.contains("paths")) what(step);
    for (const auto& input : step.inputs) left.push_back(input.get());
  }
}

arrow::Status check_paths_of(const Plan& step) {
  if (step.options.value("ignore_missing_paths", false)) return arrow::Status::OK();
  size_t asked = 0;
  for (const std::string text : step.options["paths"]) {
    ARROW_ASSIGN_OR_RAISE(const Place place, open_location(text));
    bool is_missing = true;  // unless it is known not to be
    if (place.file_system->type_name() != "local") {
      if (place.path.find_first_of("*?[") != std::string::npos || ++asked > kMostAsked) continue;
      // Whether it may be read, those say who read it: keys may be theirs alone.
      const auto info = place.file_system->GetFileInfo(place.path);
      is_missing = info.ok() && info->type() == arrow::fs::FileType::NotFound;
    }
    if (is_missing) ARROW_RETURN_NOT_OK(list_files(*place.file_system, {place.path}).status());
  }
  return arrow::Status::OK();
}

}  // namespace

std::vector<std::string> input_files(const Plan& plan) {
  std::set<std::string> paths;
  for_each_reader(plan, [&](const Plan& step) {
    for (const std::string path : step.options["paths"]) paths.insert(storage::Location(path).text());
  });
  return {paths.begin(), paths.end()};
}

arrow::Status check_paths(const Plan& plan) {
  arrow::Status checked;
  for_each_reader(plan, [&](const Plan& step) {
    if (checked.ok()) checked = check_paths_of(step);
  });
  return checked;
}

}  // namespace paceline::data
