#include "paceline/data/file/files.h"

#include <arrow/filesystem/filesystem.h>
#include <arrow/filesystem/localfs.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <deque>
#include <filesystem>
#include <set>

#include "paceline/data/file/glob_internal.h"
#include "paceline/data/memory/reading_memory.h"
#include "paceline/storage/location.h"
#include "paceline/storage/objects/parallel.h"
#include "paceline/storage/objects/scheme.h"

namespace paceline::data {
namespace {

using arrow::fs::FileInfo;
using arrow::fs::FileSystem;

// Arrow takes no URI with these, which globs and people's file names have.
std::string escape_path(std::string_view uri) {
  const size_t host = uri.find("://") + 3;
  const size_t begin = std::min(uri.find('/', host), uri.size());
  const size_t end = std::min(uri.find('?'), uri.size());
  std::string escaped;
  for (size_t i = 0; i < uri.size(); ++i) {
    const bool is_in_path = begin <= i && i < end;
    if (is_in_path && uri[i] == '[') {
      escaped += "%5B";
    } else if (is_in_path && uri[i] == ']') {
      escaped += "%5D";
    } else if (is_in_path && uri[i] == ' ') {
      escaped += "%20";
    } else {
      escaped += uri[i];
    }
  }
  return escaped;
}

arrow::Result<Place> open_in_store(const storage::Location& location) {
  const storage::Scheme* const scheme = storage::scheme_of(location.text());
  if (scheme == nullptr || !scheme->is_built_in) {
    return arrow::Status::Invalid("cannot read from ", location, ": the Arrow of this build has no ",
                                  scheme == nullptr ? "such file system" : scheme->service,
                                  "; build Paceline with an Arrow that has it");
  }
  if (location.lacks_credentials()) {
    return arrow::Status::Invalid("cannot read from ", location,
                                  ": its keys are not kept; give the URI with them, or without and the keys by ",
                                  scheme->credentials);
  }
  Place place;
  auto opened = scheme->open(escape_path(location.with_credentials()), &place.path);
  if (!opened.ok()) {
    return opened.status().WithMessage("cannot open ", location, ": ", location.redacted(opened.status().message()));
  }
  place.file_system = *std::move(opened);
  return place;
}

std::string_view without_slashes(std::string_view path) {
  while (path.starts_with('/')) path.remove_prefix(1);
  while (path.ends_with('/')) path.remove_suffix(1);
  return path;
}

bool has_extension(std::string_view path, const std::vector<std::string>& extensions) {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
  };
  return extensions.empty() || std::ranges::any_of(extensions, [&](std::string_view extension) {
           if (extension.starts_with('.')) extension.remove_prefix(1);
           if (path.size() <= extension.size() || path[path.size() - extension.size() - 1] != '.') return false;
           return std::ranges::equal(path.substr(path.size() - extension.size()), extension, same);
         });
}

// Whether a local folder is listed again that a symbolic link leads back to.
enum class Again {
  never,          // each folder once, by its own name rather than a link's
  but_not_within  // by each name, of which a pattern may match one alone, but not within itself
};

// All that is in a local folder, at any depth.
arrow::Result<std::vector<FileInfo>> below_local(FileSystem& file_system, const std::string& folder, Again again) {
  using Id = std::pair<dev_t, ino_t>;
  struct Folder {
    std::string path;
    std::vector<Id> around;
    bool is_link = false;  // or below one
    bool is_hidden = false;
  };
  std::vector<FileInfo> all;
  std::set<Id> listed;
  // Links come last, so that a folder has its own name, and hidden ones, whose files are left out, behind all others.
  std::array<std::deque<Folder>, 4> waiting;
  waiting[0].push_back({.path = folder, .around = {}});
  while (true) {
    const auto next = std::ranges::find_if(waiting, [](const auto& folders) { return !folders.empty(); });
    if (next == waiting.end()) return all;
    Folder in = std::move(next->front());
    next->pop_front();
    struct stat status = {};
    if (::stat(in.path.c_str(), &status) != 0) continue;
    const Id id(status.st_dev, status.st_ino);
    const bool is_new = listed.insert(id).second;
    if (again == Again::never ? !is_new : std::ranges::find(in.around, id) != in.around.end()) continue;
    in.around.push_back(id);
    arrow::fs::FileSelector selector;
    selector.base_dir = in.path;
    selector.allow_not_found = true;
    ARROW_ASSIGN_OR_RAISE(std::vector<FileInfo> found, file_system.GetFileInfo(selector));
    std::ranges::sort(found, {}, &FileInfo::path);
    for (FileInfo& info : found) {
      if (info.IsDirectory()) {
        struct stat itself = {};
        const bool is_link = ::lstat(info.path().c_str(), &itself) == 0 && S_ISLNK(itself.st_mode);
        Folder inner{.path = info.path(),
                     .around = in.around,
                     .is_link = in.is_link || is_link,
                     .is_hidden = in.is_hidden || is_hidden(info.base_name())};
        const size_t turn = (inner.is_hidden ? 2 : 0) + (inner.is_link ? 1 : 0);
        waiting.at(turn).push_back(std::move(inner));
      }
      all.push_back(std::move(info));
    }
  }
}

class Lister {
 public:
  Lister(FileSystem& file_system, const ListOptions& options) : file_system_(file_system), options_(options) {}

  arrow::Result<std::vector<FileInfo>> list(const std::string& path) const {
    ARROW_ASSIGN_OR_RAISE(FileInfo info, file_system_.GetFileInfo(path));
    if (info.IsFile()) return std::vector<FileInfo>{std::move(info)};
    std::vector<FileInfo> files;
    if (info.IsDirectory()) {
      ARROW_RETURN_NOT_OK(add_folder(path, files));
    } else if (has_wildcard(path)) {
      bool matched = false;
      ARROW_RETURN_NOT_OK(add_glob(path, files, matched));
      if (!matched && !options_.ignore_missing_paths) {
        return arrow::Status::IOError("no file or folder matches ", path,
                                      "; check the pattern, in which * does not match /, ** does, and neither matches "
                                      "names that begin with . or _");
      }
    } else if (!options_.ignore_missing_paths) {
      return arrow::Status::IOError("there is no file or folder ", path,
                                    "; check the path, or leave out what is missing with ignore_missing_paths");
    }
    std::ranges::sort(files, {}, &FileInfo::path);
    return files;
  }

 private:
  arrow::Status add_folder(const std::string& folder, std::vector<FileInfo>& files) const {
    return for_each_below(
        folder, /*levels=*/-1,
        [&](const FileInfo& info, const auto& names) {
          if (std::ranges::none_of(names, is_hidden)) take(info, files);
          return arrow::Status::OK();
        },
        Again::never);
  }

  arrow::Status add_glob(const std::string& glob, std::vector<FileInfo>& files, bool& matched) const {
    const size_t base = glob.rfind('/', glob.find_first_of("*?["));  // of the folder that is listed
    const std::string folder = base == std::string::npos ? "" : glob.substr(0, std::max<size_t>(base, 1));
    const auto pattern = names_of(std::string_view(glob).substr(base == std::string::npos ? 0 : base));
    const bool any_depth = std::ranges::find(pattern, "**") != pattern.end();
    const auto levels = any_depth ? -1 : static_cast<int>(pattern.size()) - 1;
    return for_each_below(
        folder, levels,
        [&](const FileInfo& info, const auto& names) {
          if (!matches(pattern, names)) return arrow::Status::OK();
          matched |= info.IsFile() || !any_depth;
          if (info.IsDirectory() && !any_depth) return add_folder(info.path(), files);
          take(info, files);
          return arrow::Status::OK();
        },
        Again::but_not_within);
  }

  void take(const FileInfo& info, std::vector<FileInfo>& files) const {
    // A name that ends with '/' marks a folder for some tools of object stores.
    if (!info.IsFile() || info.path().ends_with('/')) return;
    if (has_extension(info.path(), options_.file_extensions)) files.push_back(info);
  }

  // Calls `call` with what is in a folder, and its names from there on.
  template <typename Call>
  arrow::Status for_each_below(const std::string& folder, int levels, const Call& call, Again again) const {
    ARROW_ASSIGN_OR_RAISE(const std::vector<FileInfo> found, below(folder, levels, again));
    const std::string_view base = without_slashes(folder);
    for (const FileInfo& info : found) {
      const std::string_view path = without_slashes(info.path());  // some begin with a slash, whatever was asked for
      if (!path.starts_with(base)) {
        return arrow::Status::IOError("listing ", folder, ": the file system has answered with ", info.path(),
                                      ", which is not below it; give it a path as it lists them");
      }
      ARROW_RETURN_NOT_OK(call(info, names_of(path.substr(base.size()))));
    }
    return arrow::Status::OK();
  }

  arrow::Result<std::vector<FileInfo>> below(const std::string& folder, int levels, Again again) const {
    if (levels < 0 && file_system_.type_name() == "local") return below_local(file_system_, folder, again);
    arrow::fs::FileSelector selector;
    selector.base_dir = folder;
    selector.recursive = levels != 0;
    if (levels > 0) selector.max_recursion = levels;
    selector.allow_not_found = true;
    return file_system_.GetFileInfo(selector);
  }

  FileSystem& file_system_;
  const ListOptions& options_;
};

std::string joined(const std::vector<std::string>& texts, std::string_view before) {
  constexpr size_t kShown = 5;
  std::string all;
  for (size_t i = 0; i < std::min(texts.size(), kShown); ++i) {
    all += (i == 0 ? "" : ", ") + std::string(before) + texts[i];
  }
  if (texts.size() > kShown) all += " and " + std::to_string(texts.size() - kShown) + " more";
  return all;
}

}  // namespace

arrow::Result<Place> open_location(std::string_view text) {
  ARROW_ASSIGN_OR_RAISE(const storage::Location location, storage::resolve_here(text));
  if (location.is_uri()) return open_in_store(location);
  return Place{.file_system = std::make_shared<arrow::fs::LocalFileSystem>(arrow::io::IOContext(reading_memory())),
               .path = location.with_credentials()};
}

arrow::Result<std::vector<FileInfo>> list_files(FileSystem& file_system, const std::vector<std::string>& paths,
                                                const ListOptions& options) {
  if (paths.empty()) return arrow::Status::Invalid("no path was given; name a file, a folder or a glob");
  const Lister lister(file_system, options);
  std::vector<std::vector<FileInfo>> found(paths.size());
  ARROW_RETURN_NOT_OK(storage::for_each_in_parallel(paths.size(), [&](size_t i) {
    ARROW_ASSIGN_OR_RAISE(found[i], lister.list(paths[i]));
    return arrow::Status::OK();
  }));
  std::vector<FileInfo> files;
  for (auto& some : found) files.insert(files.end(), some.begin(), some.end());
  if (!files.empty()) return files;
  const std::string ending =
      options.file_extensions.empty() ? "" : " whose name ends with " + joined(options.file_extensions, ".");
  return arrow::Status::IOError("there is no file", ending, " in ", joined(paths, ""),
                                "; files and folders whose names begin with . or _ are left out",
                                options.file_extensions.empty() ? "" : ", and others than file_extensions says");
}

}  // namespace paceline::data
