#include "paceline/package/manifest.h"

#include <filesystem>
#include <set>
#include <utility>

#include "paceline/core/json.h"
#include "paceline/core/sha256.h"

namespace paceline::package {
namespace {

namespace fs = std::filesystem;

bool leads_out(const fs::path& path) {
  return path.empty() || path.is_absolute() || *path.begin() == "..";
}

// Why the file cannot be unpacked; "" where it can. `links`: those before it.
std::string problem_of(const PackagedFile& file, const std::set<std::string>& links) {
  const fs::path path = file.path;
  if (path.lexically_normal().string() != file.path || leads_out(path) || !path.has_filename() || path == ".") {
    return "its path is none in a package";
  }
  if (file.path.find('\0') != std::string::npos || file.link.find('\0') != std::string::npos) return "it has a zero";
  for (fs::path folder = path.parent_path(); !folder.empty(); folder = folder.parent_path()) {
    if (links.contains(folder)) return "it is below a link";
  }
  if (file.link.empty()) return is_sha256(file.sha256) && file.bytes >= 0 ? "" : "it has no checksum";
  const fs::path target = file.link;
  if (target.is_absolute() || leads_out((path.parent_path() / target).lexically_normal())) {
    return "it links out of the package";
  }
  return "";
}

}  // namespace

int64_t bytes_of(const Manifest& manifest) {
  int64_t bytes = 0;
  for (const PackagedFile& file : manifest) bytes += file.bytes;
  return bytes;
}

std::string encode(const Manifest& manifest) {
  std::string text;
  for (const PackagedFile& file : manifest) text += encode_json(Json(file)) + "\n";
  return text;
}

arrow::Result<Manifest> decode(std::string_view text) {
  Manifest manifest;
  std::set<std::string> links;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return arrow::Status::Invalid("a package's list of files ends in mid-line");
    ARROW_ASSIGN_OR_RAISE(const Json json, decode_json(text.substr(0, end)));
    text.remove_prefix(end + 1);
    PackagedFile file;
    try {
      json.get_to(file);
    } catch (const Json::exception& error) {
      return arrow::Status::Invalid("a package's list of files has a line that is none: ", error.what());
    }
    if (!manifest.empty() && file.path <= manifest.back().path) {
      return arrow::Status::Invalid("a package's files are not in order: ", file.path, " comes behind ",
                                    manifest.back().path);
    }
    if (const std::string problem = problem_of(file, links); !problem.empty()) {
      return arrow::Status::Invalid("a package's file \"", file.path, "\" is refused: ", problem);
    }
    if (!file.link.empty()) links.insert(file.path);
    manifest.push_back(std::move(file));
  }
  return manifest;
}

}  // namespace paceline::package
