// Messages about packages (package/manifest.h): how a run's code comes to agents on other machines.
//
// The controller names the packages; the agent asks for what its cache lacks, piece by piece, the list of a package's
// files first. So nothing is sent that is there already, and never more is on its way than the agent has asked for.
#pragma once

#include "paceline/rpc/messages.h"

namespace paceline::rpc {

/// What a package is for.
enum class PackageUse {
  unknown,
  program,    ///< "bin" has the program, "lib" its libraries
  directory,  ///< processes work in a copy of it
  modules     ///< of Python, found by their names
};

NLOHMANN_JSON_SERIALIZE_ENUM(PackageUse, {{PackageUse::unknown, ""},
                                          {PackageUse::program, "program"},
                                          {PackageUse::directory, "directory"},
                                          {PackageUse::modules, "modules"}})

#define PACELINE_PACKAGE_NAME_FIELDS(FIELD)                              \
  FIELD(PackageUse, use, PackageUse::unknown)                            \
  FIELD(std::string, checksum, "") /* SHA-256 of the text of its list */ \
  FIELD(int64_t, text_bytes, 0)    /* of that text */
PACELINE_RECORD(PackageName, PACELINE_PACKAGE_NAME_FIELDS);
using PackageNames = std::vector<PackageName>;

// controller → agent, once: what all processes need that are started after it. They are not started before it is there.
#define PACELINE_PACKAGES_FIELDS(FIELD) FIELD(PackageNames, packages, {})
PACELINE_MESSAGE(Packages, "packages", PACELINE_PACKAGES_FIELDS);

// agent → controller: these bytes of a content of one of the packages. Answered in the order of the requests.
#define PACELINE_PACKAGE_READ_FIELDS(FIELD) \
  FIELD(std::string, sha256, "")            \
  FIELD(int64_t, offset, 0)                 \
  FIELD(int64_t, bytes, 0)
PACELINE_MESSAGE(PackageRead, "package_read", PACELINE_PACKAGE_READ_FIELDS);

// The bytes are beside it; all that were asked for, unless there is an error.
#define PACELINE_PACKAGE_PART_FIELDS(FIELD) FIELD(std::string, error, "")
PACELINE_MESSAGE(PackagePart, "package_part", PACELINE_PACKAGE_PART_FIELDS);

/// So many bytes are asked for at a time, at most; and so many requests are on their way.
inline constexpr int64_t kPackagePartBytes = int64_t{1} << 20;
inline constexpr int64_t kPackageReadsAhead = 8;

}  // namespace paceline::rpc
