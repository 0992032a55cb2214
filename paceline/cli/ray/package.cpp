#include "paceline/cli/ray/package.h"

#include <sys/stat.h>

#include <algorithm>
#include <boost/crc.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <span>
#include <sstream>
#include <utility>

#include "paceline/core/posix/descriptor.h"
#include "paceline/storage/checksum.h"

namespace paceline::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIgnoreFile = ".rayignore";

struct Entry {
  std::string name;  // in the package; a folder's ends with '/'
  fs::path path;
  uint32_t mode = 0;
  int64_t bytes = 0;
};

// --- what goes into it ---

class Walk {
 public:
  explicit Walk(fs::path root) : root_(std::move(root)) {}

  arrow::Result<std::vector<Entry>> entries() {
    ARROW_RETURN_NOT_OK(enter(root_, ""));
    std::ranges::sort(entries_, {}, &Entry::name);
    return std::move(entries_);
  }

 private:
  struct Ignored {
    std::string folder;  // "" or "a/b/"
    IgnorePatterns patterns;
  };

  arrow::Status enter(const fs::path& folder, const std::string& name) {
    const fs::path real = fs::canonical(folder);
    if (std::ranges::find(above_, real) != above_.end()) return arrow::Status::OK();  // a link to where it stands
    above_.push_back(real);
    const size_t outer = ignored_.size();
    if (std::ifstream file(folder / kIgnoreFile); file) {
      ignored_.push_back({name, IgnorePatterns(std::string(std::istreambuf_iterator<char>(file), {}))});
    }
    const size_t before = entries_.size();
    for (const fs::directory_entry& one : fs::directory_iterator(folder)) ARROW_RETURN_NOT_OK(take(one, name));
    if (entries_.size() == before && !name.empty()) entries_.push_back({name, folder, S_IFDIR | 0755, 0});
    ignored_.erase(ignored_.begin() + static_cast<std::ptrdiff_t>(outer), ignored_.end());
    above_.pop_back();
    return arrow::Status::OK();
  }

  arrow::Status take(const fs::directory_entry& one, const std::string& folder) {
    const std::string name = folder + one.path().filename().string();
    struct stat status{};
    if (::stat(one.path().c_str(), &status) != 0) return arrow::Status::OK();  // a link that leads nowhere
    const bool is_folder = S_ISDIR(status.st_mode);
    if ((is_folder && one.path().filename() == ".git") || is_ignored(name, is_folder)) return arrow::Status::OK();
    if (is_folder) return enter(one.path(), name + "/");
    if (S_ISREG(status.st_mode)) entries_.push_back({name, one.path(), status.st_mode, status.st_size});
    return arrow::Status::OK();
  }

  bool is_ignored(const std::string& name, bool is_folder) const {
    return std::ranges::any_of(ignored_, [&](const Ignored& ignored) {
      return ignored.patterns.ignores(name.substr(ignored.folder.size()), is_folder);
    });
  }

  const fs::path root_;
  std::vector<fs::path> above_;
  std::vector<Ignored> ignored_;
  std::vector<Entry> entries_;
};

arrow::Status check_size(const std::string& folder, const std::vector<Entry>& entries) {
  int64_t bytes = 0;
  for (const Entry& entry : entries) bytes += entry.bytes;
  if (bytes < kMostPackageBytes && entries.size() <= std::numeric_limits<uint16_t>::max()) return arrow::Status::OK();
  std::vector<Entry> largest = entries;
  std::ranges::sort(largest, std::greater{}, &Entry::bytes);
  std::string names;
  for (size_t i = 0; i < std::min<size_t>(3, largest.size()); ++i) {
    names += (i == 0 ? "" : ", ") + largest[i].name + " (" + std::to_string(largest[i].bytes >> 20) + " MiB)";
  }
  return arrow::Status::Invalid(folder, " has ", entries.size(), " files of ", bytes >> 20, " MiB; Ray takes 65535 of ",
                                kMostPackageBytes >> 20, " MiB at most. The largest are ", names, ". Name in ", folder,
                                "/", kIgnoreFile, " what the cluster does not need");
}

arrow::Result<std::string> read(const Entry& entry) {
  std::ifstream file(entry.path, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(file), {});
  if (file.is_open() && !file.bad()) return bytes;
  return arrow::Status::Invalid("cannot read ", entry.path.string(), ", which belongs to the working directory; ",
                                "name it in a ", kIgnoreFile, " there if the cluster does not need it");
}

// --- the zip: APPNOTE.TXT 4.3, stored without compression, as Ray's own client does it ---

template <class Number>
void put(std::string& text, Number number) {
  for (size_t i = 0; i < sizeof number; ++i) text.push_back(static_cast<char>((number >> (8 * i)) & 0xff));
}

class Zip {
 public:
  void add(const Entry& entry, std::string_view bytes) {
    boost::crc_32_type crc;
    crc.process_bytes(bytes.data(), bytes.size());
    const auto offset = static_cast<uint32_t>(bytes_.size());
    std::string facts;
    put(facts, uint16_t{20});      // version of the format
    put(facts, uint16_t{0x0800});  // names are UTF-8
    put(facts, uint16_t{0});       // stored
    put(facts, uint16_t{0});       // the time is always the same, so that the same files have the same name
    put(facts, uint16_t{0x21});    // 1 January 1980
    put(facts, static_cast<uint32_t>(crc.checksum()));
    put(facts, static_cast<uint32_t>(bytes.size()));
    put(facts, static_cast<uint32_t>(bytes.size()));
    put(facts, static_cast<uint16_t>(entry.name.size()));
    put(facts, uint16_t{0});
    put(bytes_, uint32_t{0x04034b50});
    bytes_.append(facts).append(entry.name).append(bytes);
    put(directory_, uint32_t{0x02014b50});
    put(directory_, uint16_t{0x031e});  // made on Unix: rights are in the upper half of the attributes
    directory_.append(facts);
    put(directory_, uint16_t{0});
    put(directory_, uint16_t{0});
    put(directory_, uint16_t{0});
    put(directory_, entry.mode << 16);
    put(directory_, offset);
    directory_.append(entry.name);
    ++entries_;
  }

  std::string bytes() && {
    const auto offset = static_cast<uint32_t>(bytes_.size());
    bytes_.append(directory_);
    put(bytes_, uint32_t{0x06054b50});
    put(bytes_, uint32_t{0});
    put(bytes_, entries_);
    put(bytes_, entries_);
    put(bytes_, static_cast<uint32_t>(directory_.size()));
    put(bytes_, offset);
    put(bytes_, uint16_t{0});
    return std::move(bytes_);
  }

 private:
  std::string bytes_;
  std::string directory_;
  uint16_t entries_ = 0;
};

// --- patterns ---

bool is_special(char c) {
  return std::string_view(R"(\^$.|+()[]{}*?)").find(c) != std::string_view::npos;
}

// Of a set "[a-z]" from behind its '['; where none ends, '[' is itself.
std::string set_of(std::string_view glob, size_t& at) {
  const size_t end = glob.find(']', at + 1);
  if (end == std::string_view::npos) return "\\[";
  std::string set(glob.substr(at, end - at));
  at = end + 1;
  if (set[0] == '!') set[0] = '^';
  return "[" + set + "]";
}

// A regular expression of a pattern without its first and last '/'.
std::string expression_of(std::string_view glob) {
  std::string expression;
  for (size_t at = 0; at < glob.size();) {
    const std::string_view rest = glob.substr(at);
    if (rest.starts_with("**/")) {
      expression += "(?:.*/)?";
      at += 3;
    } else if (rest == "**") {
      expression += ".*";
      at += 2;
    } else if (rest[0] == '*') {
      expression += "[^/]*";
      ++at;
    } else if (rest[0] == '?') {
      expression += "[^/]";
      ++at;
    } else if (rest[0] == '[') {
      expression += set_of(glob, ++at);
    } else {
      if (rest[0] == '\\' && rest.size() > 1) ++at;
      if (is_special(glob[at])) expression += '\\';
      expression += glob[at++];
    }
  }
  return expression;
}

}  // namespace

IgnorePatterns::IgnorePatterns(std::string_view text) {
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    while (!line.empty() && (line.back() == ' ' || line.back() == '\r' || line.back() == '\t')) line.pop_back();
    if (line.empty() || line[0] == '#') continue;
    Pattern pattern;
    std::string_view glob = line;
    if (glob.starts_with('!')) {
      pattern.excepts = true;
      glob.remove_prefix(1);
    }
    if (glob.ends_with('/')) {
      pattern.folders_only = true;
      glob.remove_suffix(1);
    }
    const bool is_anchored = glob.find('/') != std::string_view::npos;
    if (glob.starts_with('/')) glob.remove_prefix(1);
    if (glob.empty()) continue;
    pattern.expression = (is_anchored ? "" : "(?:.*/)?") + expression_of(glob);  // regex_error where it is none
    patterns_.push_back(std::move(pattern));
  }
}

bool IgnorePatterns::ignores(const std::string& path, bool is_folder) const {
  const auto fits = [&](const Pattern& pattern) {
    return (is_folder || !pattern.folders_only) && std::regex_match(path, pattern.expression);
  };
  const auto last = std::find_if(patterns_.rbegin(), patterns_.rend(), fits);
  return last != patterns_.rend() && !last->excepts;
}

arrow::Result<Package> make_package(const std::string& folder) {
  std::error_code error;
  const fs::path root = fs::canonical(folder, error);
  if (error || !fs::is_directory(root)) return arrow::Status::Invalid("there is no folder ", folder);
  try {
    ARROW_ASSIGN_OR_RAISE(const std::vector<Entry> entries, Walk(root).entries());
    ARROW_RETURN_NOT_OK(check_size(folder, entries));
    Zip zip;
    for (const Entry& entry : entries) {
      std::string bytes;
      if (!entry.name.ends_with('/')) {
        ARROW_ASSIGN_OR_RAISE(bytes, read(entry));
      }
      zip.add(entry, bytes);
    }
    Package package{.bytes = std::move(zip).bytes(), .files = std::ssize(entries)};
    package.name = "_ray_pkg_" + storage::checksum_of(std::as_bytes(std::span(package.bytes))) + ".zip";
    return package;
  } catch (const fs::filesystem_error& problem) {
    return arrow::Status::Invalid("the working directory cannot be read: ", problem.what());
  } catch (const std::regex_error&) {
    return arrow::Status::Invalid("a ", kIgnoreFile, " in ", folder, " has a pattern that cannot be read");
  }
}

}  // namespace paceline::cli
