#include "paceline/dashboard/assets.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "paceline/core/posix/descriptor.h"
#include "paceline/storage/checksum.h"

namespace paceline::dashboard {
namespace {

constexpr std::pair<std::string_view, const char*> kTypes[] = {{".html", "text/html; charset=utf-8"},
                                                               {".js", "text/javascript; charset=utf-8"},
                                                               {".mjs", "text/javascript; charset=utf-8"},
                                                               {".css", "text/css; charset=utf-8"},
                                                               {".json", "application/json"},
                                                               {".map", "application/json"},
                                                               {".svg", "image/svg+xml"},
                                                               {".png", "image/png"},
                                                               {".ico", "image/x-icon"},
                                                               {".woff2", "font/woff2"},
                                                               {".wasm", "application/wasm"},
                                                               {".txt", "text/plain; charset=utf-8"}};

Asset asset_of(std::string_view name, std::string_view hash, std::string body) {
  const bool may_change = !is_hashed(name);
  return {.content_type = content_type_of(name),
          .etag = "\"" + std::string(hash) + "\"",
          .cache_control = name == "index.html" ? "no-store"
                           : may_change         ? "no-cache"
                                                : "public, max-age=31536000, immutable",
          .body = std::move(body)};
}

class EmbeddedAssets final : public Assets {
 public:
  std::optional<Asset> find(const std::string& name) const override {
    const auto files = embedded_files();
    const auto found = std::ranges::find(files, name, &EmbeddedFile::name);
    if (found == files.end()) return std::nullopt;
    return asset_of(found->name, found->hash, std::string(found->content));
  }
};

class FolderAssets final : public Assets {
 public:
  explicit FolderAssets(Descriptor folder) : folder_(std::move(folder)) {}

  std::optional<Asset> find(const std::string& name) const override {
    open_how how{};
    how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
    const Descriptor file(static_cast<int>(::syscall(SYS_openat2, folder_.get(), name.c_str(), &how, sizeof how)));
    struct stat what{};
    if (!file || ::fstat(file.get(), &what) != 0 || !S_ISREG(what.st_mode)) return std::nullopt;
    std::string body;
    std::array<char, 65536> buffer;
    for (ssize_t count; (count = ::read(file.get(), buffer.data(), buffer.size())) != 0;) {
      if (count < 0) return std::nullopt;
      body.append(buffer.data(), static_cast<size_t>(count));
    }
    const std::string hash = storage::checksum_of(std::as_bytes(std::span(body)));
    Asset asset = asset_of(name, hash, std::move(body));
    asset.cache_control = "no-store";
    return asset;
  }

 private:
  Descriptor folder_;
};

}  // namespace

std::string content_type_of(std::string_view name) {
  for (const auto& [ending, type] : kTypes) {
    if (name.ends_with(ending)) return type;
  }
  return "application/octet-stream";
}

bool is_hashed(std::string_view name) {
  const size_t dash = name.rfind('-');
  if (dash == std::string_view::npos) return false;
  const size_t dot = name.find('.', dash);
  if (dot == std::string_view::npos) return false;
  const std::string_view hash = name.substr(dash + 1, dot - dash - 1);
  constexpr size_t kShortest = 8;
  const auto is_of_a_hash = [](unsigned char letter) { return std::isdigit(letter) != 0 || std::isupper(letter) != 0; };
  const auto is_hexadecimal = [](unsigned char letter) { return std::isxdigit(letter) != 0; };
  return hash.size() >= kShortest &&
         (std::ranges::all_of(hash, is_of_a_hash) || std::ranges::all_of(hash, is_hexadecimal));
}

std::unique_ptr<Assets> embedded_assets() {
  return std::make_unique<EmbeddedAssets>();
}

arrow::Result<std::unique_ptr<Assets>> folder_assets(const std::string& folder) {
  Descriptor opened(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!opened) return arrow::Status::Invalid(folder, " is no folder that can be opened, so it has no web page");
  return std::make_unique<FolderAssets>(std::move(opened));
}

}  // namespace paceline::dashboard
