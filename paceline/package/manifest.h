// What is in a package: the files of a program, a working folder or modules, which travel to other machines by their
// content. Its text names every file with its checksum; the checksum of the text is the package's.
//
// Pure. Texts come from the network: decode() refuses what would lead out of the folder that a package is unpacked in.
#pragma once

#include <arrow/result.h>

#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/record.h"

namespace paceline::package {

#define PACELINE_PACKAGED_FILE_FIELDS(FIELD)                             \
  FIELD(std::string, path, "")   /* in the package, '/' between parts */ \
  FIELD(std::string, sha256, "") /* of what is in it; "" of a link */    \
  FIELD(int64_t, bytes, 0)                                               \
  FIELD(bool, executable, false)                                         \
  FIELD(std::string, link, "") /* a symbolic link to this, relative to its own folder; "": a file */
PACELINE_RECORD(PackagedFile, PACELINE_PACKAGED_FILE_FIELDS);

/// Sorted by path; each path once.
using Manifest = std::vector<PackagedFile>;

/// Of all its files, in bytes.
int64_t bytes_of(const Manifest& manifest);

/// As JSON, a file in each line: equal manifests have equal texts.
std::string encode(const Manifest& manifest);

/// Invalid where the text is none of encode()'s, and where a path or link leads out of the package: an absolute one,
/// one with "..", a file below a link, a name that comes twice.
arrow::Result<Manifest> decode(std::string_view text);

}  // namespace paceline::package
