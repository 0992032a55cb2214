#include "paceline/package/collect.h"

#include <fnmatch.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <system_error>

#include "paceline/core/bytes_text.h"

namespace paceline::package {
namespace {

namespace fs = std::filesystem;

constexpr std::array kNeverSent = {".git", ".venv", "venv", "__pycache__"};
constexpr std::array kSystemFolders = {"/lib/", "/lib32/", "/lib64/", "/usr/lib/", "/usr/lib32/", "/usr/lib64/"};

// Files of this machine, or links, by their paths in the package.
struct Entry {
  std::string source;
  int64_t bytes = 0;
  bool executable = false;
  std::string link;
};
using Entries = std::map<std::string, Entry>;

bool is_below(const fs::path& path, const fs::path& folder) {
  const fs::path relative = path.lexically_relative(folder);
  return !relative.empty() && *relative.begin() != "..";
}

bool is_excluded(const fs::path& below_root, bool is_folder, const std::vector<std::string>& excludes) {
  const std::string path = below_root;
  const std::string name = below_root.filename();
  if (std::ranges::find(kNeverSent, name) != kNeverSent.end()) return true;
  return std::ranges::any_of(excludes, [&](std::string pattern) {
    if (pattern.ends_with('/')) {
      if (!is_folder) return false;
      pattern.pop_back();
    }
    const bool is_path = pattern.find('/') != std::string::npos;
    if (pattern.starts_with('/')) pattern.erase(0, 1);
    return ::fnmatch(pattern.c_str(), (is_path ? path : name).c_str(), 0) == 0;
  });
}

arrow::Status add_file(const fs::path& source, const std::string& name, Entries& entries) {
  std::error_code error;
  const auto bytes = static_cast<int64_t>(fs::file_size(source, error));
  if (error) return arrow::Status::IOError("cannot read ", source.string(), ": ", error.message());
  entries[name] = {.source = source, .bytes = bytes, .executable = ::access(source.c_str(), X_OK) == 0, .link = ""};
  return arrow::Status::OK();
}

// `folder` is canonical.
arrow::Status add_link(const fs::path& folder, const fs::path& path, const std::string& name, Entries& entries) {
  std::error_code error;
  const fs::path target = fs::canonical(path, error);
  if (error) return arrow::Status::OK();  // it leads nowhere
  if (is_below(target, folder)) {
    const fs::path link = target.lexically_relative(fs::canonical(path.parent_path()));
    entries[name] = {.source = "", .bytes = 0, .executable = false, .link = link};
    return arrow::Status::OK();
  }
  if (fs::is_regular_file(target, error)) return add_file(target, name, entries);
  if (!fs::is_directory(target, error)) return arrow::Status::OK();
  return arrow::Status::Invalid(path.string(), " links to a folder elsewhere, ", target.string(),
                                ", which does not travel with it; leave it out (excludes), or put the folder there");
}

arrow::Status add_folder(const Root& root, const CollectOptions& options, Entries& entries) {
  const fs::path folder = fs::canonical(root.path);
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;  // of what has gone meanwhile, and of links that lead nowhere
    const fs::path below = it->path().lexically_relative(folder);
    const bool is_link = it->is_symlink(ignored);
    const bool is_folder = !is_link && it->is_directory(ignored);
    if (is_excluded(below, is_folder, options.excludes)) {
      if (is_folder) it.disable_recursion_pending();
      continue;
    }
    const std::string name = root.name.empty() ? below : fs::path(root.name) / below;
    if (is_link) {
      ARROW_RETURN_NOT_OK(add_link(folder, it->path(), name, entries));
    } else if (it->is_regular_file(ignored)) {
      ARROW_RETURN_NOT_OK(add_file(it->path(), name, entries));
    }
  }
  if (error) return arrow::Status::IOError("cannot read the folder ", root.path, ": ", error.message());
  return arrow::Status::OK();
}

// A link to what is left out leads nowhere.
void remove_dangling_links(Entries& entries) {
  std::erase_if(entries, [&](const auto& entry) {
    const auto& [name, facts] = entry;
    if (facts.link.empty()) return false;
    const std::string target = (fs::path(name).parent_path() / facts.link).lexically_normal();
    const auto there = entries.lower_bound(target);
    return there == entries.end() || (there->first != target && !there->first.starts_with(target + "/"));
  });
}

arrow::Status refuse_too_much(const Entries& entries, int64_t most_bytes) {
  int64_t all = 0;
  const Entry* largest = nullptr;
  for (const auto& [name, entry] : entries) {
    all += entry.bytes;
    if (largest == nullptr || entry.bytes > largest->bytes) largest = &entry;
  }
  if (all <= most_bytes) return arrow::Status::OK();
  return arrow::Status::Invalid(bytes_text(all), " are to travel to the nodes; at most ", bytes_text(most_bytes),
                                " are allowed. The largest file is ", largest->source, " with ",
                                bytes_text(largest->bytes),
                                "; leave out what workers do not need (excludes), and put data where all nodes see it");
}

arrow::Result<Package> packed(const Entries& entries, const Cache& cache) {
  Package package;
  for (const auto& [name, entry] : entries) {
    PackagedFile file{.path = name, .bytes = entry.bytes, .executable = entry.executable, .link = entry.link};
    if (entry.link.empty()) {
      ARROW_ASSIGN_OR_RAISE(file.sha256, cache.add_file(entry.source));
      std::error_code error;
      file.bytes = static_cast<int64_t>(fs::file_size(cache.path_of(file.sha256), error));
    }
    package.manifest.push_back(std::move(file));
  }
  const std::string text = encode(package.manifest);
  ARROW_ASSIGN_OR_RAISE(package.checksum, sha256_of(text));
  package.text_bytes = std::ssize(text);
  if (!cache.has(package.checksum, package.text_bytes)) {
    ARROW_ASSIGN_OR_RAISE(Cache::Writer writer, cache.write(package.checksum));
    ARROW_RETURN_NOT_OK(writer.add(text));
    ARROW_RETURN_NOT_OK(writer.finish());
  }
  return package;
}

bool is_of_system(const std::string& path) {
  return std::ranges::any_of(kSystemFolders, [&](const char* folder) { return path.starts_with(folder); });
}

// As the loader has found them: their names are those that programs ask for.
std::vector<std::string> loaded_libraries() {
  std::vector<std::string> libraries;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* list) {
        const std::string path = info->dlpi_name;
        if (path.starts_with('/')) static_cast<std::vector<std::string>*>(list)->push_back(path);
        return 0;
      },
      &libraries);
  return libraries;
}

}  // namespace

arrow::Result<Package> collect(const std::vector<Root>& roots, const CollectOptions& options, const Cache& cache) {
  Entries entries;
  for (const Root& root : roots) {
    std::error_code error;
    if (fs::is_directory(root.path, error)) {
      ARROW_RETURN_NOT_OK(add_folder(root, options, entries));
    } else if (fs::is_regular_file(root.path, error)) {
      ARROW_RETURN_NOT_OK(add_file(root.path, root.name, entries));
    } else {
      return arrow::Status::Invalid("there is no file or folder ", root.path);
    }
  }
  remove_dangling_links(entries);
  ARROW_RETURN_NOT_OK(refuse_too_much(entries, options.most_bytes));
  return packed(entries, cache);
}

arrow::Result<Package> collect_program(const Cache& cache) {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) return arrow::Status::IOError("cannot tell which program this is: ", error.message());
  Entries entries;
  ARROW_RETURN_NOT_OK(add_file(program, "bin/" + program.filename().string(), entries));
  for (const std::string& library : loaded_libraries()) {
    if (is_of_system(library) || is_of_system(fs::canonical(library, error))) continue;
    ARROW_RETURN_NOT_OK(add_file(library, "lib/" + fs::path(library).filename().string(), entries));
  }
  return packed(entries, cache);
}

}  // namespace paceline::package
