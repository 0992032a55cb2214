// Rows that are their own numbers, for tests, examples and measurements.
#pragma once

#include <optional>

#include "paceline/data/source/source.h"

namespace paceline::data {

struct RangeOptions {
  /// Decoded bytes of a chunk; it has one row at least.
  int64_t chunk_bytes = int64_t{8} << 20;
};

/// Rows 0 … rows - 1. Without a shape the column `id` (int64) is the row's number; with one, also with that of a
/// scalar, {}, the column `data` is a tensor of int64 that is filled with it. Invalid for less than no rows, or a
/// shape that no list can have.
///
///     ARROW_ASSIGN_OR_RAISE(auto images, range_source(1000, {{3, 64, 64}}));
arrow::Result<std::unique_ptr<Source>> range_source(int64_t rows,
                                                    const std::optional<std::vector<int64_t>>& shape = std::nullopt,
                                                    const RangeOptions& options = {});

}  // namespace paceline::data
