// NumPy's .npy files as a source: the first dimension of an array is its rows, in the column `data`.
//
// A row is a tensor of the other dimensions: fixed_size_list of fixed_size_list … of the array's numbers. Chunks are
// ranges of rows, so that a file may be larger than memory.
#pragma once

#include <arrow/filesystem/type_fwd.h>

#include "paceline/data/source/source.h"

namespace paceline::data {

struct NumpyOptions {
  /// Bytes of a chunk; it has one row at least.
  int64_t chunk_bytes = int64_t{8} << 20;
};

/// Reads the headers of all files. Arrays have booleans, integers or floats (16, 32 or 64 bits) in little-endian order,
/// and elements in C order; an array without dimensions is one row. Invalid for others, for a file that is shorter than
/// its header says, and where type or shape of the rows differ from those of the first file; the message names the file
/// and says what to do.
///
///     ARROW_ASSIGN_OR_RAISE(auto source, numpy_source(file_system, files));
arrow::Result<std::unique_ptr<Source>> numpy_source(std::shared_ptr<arrow::fs::FileSystem> file_system,
                                                    std::vector<arrow::fs::FileInfo> files,
                                                    const NumpyOptions& options = {});

}  // namespace paceline::data
