// A working directory as Ray's clusters take it: a zip of its files, named after what is in it.
//
// All files below the folder, but for what its .rayignore files name, in the language of .gitignore, and .git. What
// .gitignore names goes too, unlike with Ray's own client: there programs stand that were built.
#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::cli {

/// Ray takes no larger ones: a package is one message to its control store.
inline constexpr int64_t kMostPackageBytes = int64_t{500} << 20;

struct Package {
  /// "_ray_pkg_….zip": of the same files and rights it is the same.
  std::string name;
  std::string bytes;
  int64_t files = 0;
};

/// Invalid: no such folder, a file that cannot be read, more than Ray takes, where the largest files are named.
arrow::Result<Package> make_package(const std::string& folder);

/// The patterns of one ignore file.
class IgnorePatterns {
 public:
  explicit IgnorePatterns(std::string_view text);
  /// Of a path below the file's folder, "a/b.txt". The last pattern that fits decides.
  bool ignores(const std::string& path, bool is_folder) const;

 private:
  struct Pattern {
    std::regex expression;
    bool excepts = false;  // it began with '!'
    bool folders_only = false;
  };
  std::vector<Pattern> patterns_;
};

}  // namespace paceline::cli
