// The files of the web page: those that were embedded when the program was built, or those of a folder.
//
// Files with the hash of their content in their name may be kept for ever; all others are asked for anew. Thread-safe.
#pragma once

#include <arrow/result.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace paceline::dashboard {

struct Asset {
  std::string content_type;
  std::string etag;
  std::string cache_control;
  std::string body;
};

class Assets {
 public:
  virtual ~Assets() = default;
  /// By its name: "index.html", "fonts/a.woff2"; nothing for one that is not there.
  virtual std::optional<Asset> find(const std::string& name) const = 0;
};

struct EmbeddedFile {
  std::string_view name;
  std::string_view content;
  std::string_view hash;
};
/// Those of web/dist at the time of the build.
std::span<const EmbeddedFile> embedded_files();

std::unique_ptr<Assets> embedded_assets();
/// For whoever writes the page: files are read each time. No name and no link leads out of the folder. Invalid where it
/// is none.
arrow::Result<std::unique_ptr<Assets>> folder_assets(const std::string& folder);

/// "text/html; charset=utf-8" for "index.html".
std::string content_type_of(std::string_view name);
/// Whether the name has a hash in it: "app-8F3A91C2.js".
bool is_hashed(std::string_view name);

}  // namespace paceline::dashboard
