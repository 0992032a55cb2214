// What goes into packages: folders and modules of a user, and the program that this process is.
//
// Their contents are copied into this machine's cache, so that they can be sent as they were when the run began, also
// when the user goes on working on them.
#pragma once

#include <arrow/result.h>

#include <string>
#include <vector>

#include "paceline/package/cache.h"
#include "paceline/package/manifest.h"

namespace paceline::package {

/// A package whose contents, and whose text, are in the cache of this machine.
struct Package {
  /// Of the manifest's text.
  std::string checksum;
  int64_t text_bytes = 0;
  Manifest manifest;
};

/// A folder with all that is in it, or a file.
struct Root {
  std::string path;
  /// Name in the package; "": what is in the folder lies in the package itself.
  std::string name;
};

struct CollectOptions {
  /// Patterns (fnmatch) of what is left out, beside `.git`, `.venv`, `venv` and `__pycache__`: of names at any depth,
  /// or, with a '/' in them, of paths below the root; one that ends with '/' of folders only.
  std::vector<std::string> excludes;
  /// Code, not data: beyond it nothing is sent.
  int64_t most_bytes = int64_t{512} << 20;
};

/// Links within the folder stay links; of one that leads out of it to a file that travels, and to a folder it is
/// refused. Sockets and the like are left out. Invalid: no such file, and more bytes than are allowed, which names the
/// largest and what to do; IOError: one cannot be read.
arrow::Result<Package> collect(const std::vector<Root>& roots, const CollectOptions& options, const Cache& cache);

/// The program of this process as "bin/NAME", and in "lib" the shared libraries that it has loaded, but for those of
/// the system (below /lib, /usr/lib and so on).
arrow::Result<Package> collect_program(const Cache& cache);

}  // namespace paceline::package
