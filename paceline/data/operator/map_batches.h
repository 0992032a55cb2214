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
  /// Rows of a call; nullopt: whole blocks. All batches but the last have so many, across blocks, except where rows are
  /// not counted before they are read (behind a filter; of CSV, JSON and texts): then the last one of a block has
  /// fewer.
  std::optional<int64_t> batch_size = std::nullopt;
  /// False where it gives one row for each row: then the number of rows stays known.
  bool udf_modifying_row_count = true;
  /// What becomes of rows for which it fails: "raise", an error; "skip", they are left out; "replace", a good row of
  /// their block takes their place. A batch that fails is given to it in parts, down to single rows.
  std::string on_error = "raise";
  std::string quarantine = "";  ///< path of a file to which such rows are added, as JSON lines; "": none
};

/// What a registered function is for: the steps of Dataset. What it is registered with calls it for each row, or with
/// the batch.
enum class FunctionForm {
  batches,    ///< map_batches(): of rows others
  row,        ///< map(): of each row another
  rows,       ///< flat_map(): of each row any number
  condition,  ///< filter(): of rows those that pass
  column      ///< add_column(): of rows one column
};

/// Registers what calls the function at `address` as `name`. ConfigError if another has that name.
void register_map_batches(const std::string& name, FunctionAddress address, BlockFunction function,
                          FunctionForm form = FunctionForm::batches);
/// The name of the function at `address`. UsageError, which says how to register it, if it has none.
std::string map_batches_name(FunctionAddress address);
/// The operator that calls the function of that name. `column`: of FunctionForm::column, that it makes. Invalid, with
/// the names there are, where there is none, where it is registered for another form, and for a batch_size below 1.
arrow::Result<std::shared_ptr<const Operator>> map_batches(const std::string& name, const MapBatchesOptions& options,
                                                           FunctionForm form = FunctionForm::batches,
                                                           const std::string& column = "");

}  // namespace paceline::data
