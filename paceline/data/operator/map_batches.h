// Functions of the user's program as operators, by name: so plans that have them can travel to other processes of the
// program.
//
// Functions are registered before main, with PACELINE_MAP_BATCHES (train/data/map_batches.h) for those of tensors;
// afterwards the table is only read.
#pragma once

#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "paceline/data/operator/operator.h"

namespace paceline::data {

/// From rows to rows. What it does by chance is a function of `key`. Several threads call it at the same time.
using BlockFunction = std::function<arrow::Result<std::shared_ptr<arrow::RecordBatch>>(
    const std::shared_ptr<arrow::RecordBatch>& rows, uint64_t key)>;
/// The address of a user's function, whatever its type is.
using FunctionAddress = void (*)();

/// How a function is called.
struct MapBatchesOptions {
  std::optional<int64_t> batch_size = std::nullopt;  ///< rows of a call, which are of one block; nullopt: whole blocks
  /// False where it gives one row for each row: then the number of rows stays known.
  bool udf_modifying_row_count = true;
};

/// Registers what calls the function at `address` as `name`. ConfigError if another has that name.
void register_map_batches(const std::string& name, FunctionAddress address, BlockFunction function);
/// The name of the function at `address`. UsageError, which says how to register it, if it has none.
std::string map_batches_name(FunctionAddress address);
/// The operator that calls the function of that name. Invalid, with the names there are, where there is none, and for
/// a batch_size below 1.
arrow::Result<std::shared_ptr<const Operator>> map_batches(const std::string& name, const MapBatchesOptions& options);

}  // namespace paceline::data
