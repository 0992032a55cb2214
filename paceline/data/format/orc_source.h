// ORC files as a source: each stripe is a chunk.
//
// Files are read in the order in which they are given, and only the columns that are asked for. Files may differ: a
// column that a file does not have is null there, and numbers become the wider type. ORC does not say how many bytes
// text and lists take once decoded: chunks() then guesses from those of the whole stripe.
#pragma once

#include <arrow/filesystem/type_fwd.h>

#include <optional>
#include <string>
#include <vector>

#include "paceline/data/source/source.h"

namespace paceline::data {

struct OrcOptions {
  /// Names of the columns to read, in this order; nullopt for all. A name that no file has is an error.
  std::optional<std::vector<std::string>> columns;
  /// How many footers are read at once when the source is made.
  size_t footers_at_once = 8;
};

/// Reads the footers of all files, which list_files() (files.h) has found. Invalid where there is no file, or a
/// column's types in two files have none in common; IOError where a file cannot be read. The message names the files.
///
///     ARROW_ASSIGN_OR_RAISE(auto source, orc_source(file_system, files));
arrow::Result<std::unique_ptr<Source>> orc_source(std::shared_ptr<arrow::fs::FileSystem> file_system,
                                                  std::vector<arrow::fs::FileInfo> files,
                                                  const OrcOptions& options = {});

}  // namespace paceline::data
