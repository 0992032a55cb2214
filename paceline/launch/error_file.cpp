#include "paceline/launch/error_file.h"

#include <unistd.h>

#include <filesystem>

#include "paceline/core/json.h"
#include "paceline/core/run_layout.h"

namespace paceline::launch {

std::optional<rpc::Failed> parse_error_file(std::string_view text) {
  const auto json = decode_json(text);
  if (!json.ok() || !json->is_object()) return std::nullopt;
  Json message = json->value("message", Json());
  if (message.is_object()) message = message.value("message", Json());
  if (!message.is_string()) return std::nullopt;
  const auto whole = message.get<std::string>();
  const size_t colon = whole.find(": ");
  const bool has_type = colon != std::string::npos && whole.find(' ') > colon;
  if (!has_type) return rpc::Failed{.text = whole};
  return rpc::Failed{.kind = whole.substr(0, colon), .text = whole.substr(colon + 2)};
}

ErrorFile error_file_of(const std::string& run_folder, WorkerId worker) {
  const std::filesystem::path file = run_folder + "/" + run_layout::error_file(worker);
  std::error_code error;
  if (std::filesystem::is_directory(file.parent_path(), error)) return {.path = file};
  const auto folder = std::filesystem::temp_directory_path(error);
  const std::string name = "paceline_" + std::to_string(::getpid()) + "_" + file.filename().string();
  return {.path = folder / name, .is_temporary = true};
}

}  // namespace paceline::launch
