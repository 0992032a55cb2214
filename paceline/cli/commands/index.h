// Reads run folders into the run store, for `paceline index` and for a dashboard of a storage path.
#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <string>
#include <vector>

namespace paceline::cli {

struct IndexProblem {
  std::string path;
  std::string error;
};

struct IndexOutcome {
  int64_t indexed = 0;
  int64_t gone = 0;
  std::string set_aside;  // where the store that could not be used is now
  std::vector<IndexProblem> problems;
};

/// Reads run folders, storage paths that hold runs, or URIs of either; with none those of all known runs and the
/// default storage path. Folders that cannot be read are problems; an error is a store that cannot be written.
arrow::Result<IndexOutcome> index_runs(const std::vector<std::string>& given);

}  // namespace paceline::cli
