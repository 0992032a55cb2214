// Sources of a user's own: functions of the program that list read tasks, by name, so that plans which have them can
// travel to other processes of the program.
//
// Functions are registered before main, with PACELINE_DATASOURCE; afterwards the table is only read.
#pragma once

#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/json.h"
#include "paceline/data/source/source.h"

namespace paceline::data {

/// A block of a user's source.
struct ReadTask {
  /// Gives the rows, the same ones each time. Several threads call it at once, also for one task; what it throws is the
  /// error of the block. All tasks give the same columns.
  std::function<std::shared_ptr<arrow::RecordBatch>()> read;
  /// How many rows it gives; nullopt where that is not known before it is read. Where all tasks say it, rows are
  /// counted without reading.
  std::optional<int64_t> num_rows = std::nullopt;
  int64_t size_bytes = int64_t{1} << 20;  ///< about, of the rows in memory
};

/// Lists the tasks of a source, in the order of its rows. Each process that reads calls it, once: it gives the same
/// tasks for the same options everywhere.
using Datasource = std::vector<ReadTask> (*)(const Json& options);

/// Registers the function. ConfigError if another has that name.
void register_datasource(const std::string& name, Datasource datasource);
/// The name of a function. UsageError, which says how to register it, if it has none.
std::string datasource_name(Datasource datasource);
/// What the function of that name lists. Invalid where there is none of that name, with those that there are, and with
/// what it throws.
arrow::Result<std::unique_ptr<Source>> datasource_source(const std::string& name, const Json& options);

/// Registers a function before main, where nothing could catch an error: an error ends the program with its text.
struct DatasourceRegistration {
  DatasourceRegistration(const char* name, Datasource datasource) noexcept { register_datasource(name, datasource); }
};

}  // namespace paceline::data

/// Registers a source for read_datasource(), at namespace scope.
///
///     std::vector<paceline::data::ReadTask> squares(const paceline::Json& options) {
///       std::vector<paceline::data::ReadTask> tasks;
///       for (int64_t first = 0; first < options.at("rows"); first += 1000) {
///         tasks.push_back({.read = [first] { return squares_from(first, 1000); }, .num_rows = 1000});
///       }
///       return tasks;
///     }
///     PACELINE_DATASOURCE(squares);
#define PACELINE_DATASOURCE(function)                                                                              \
  [[maybe_unused]] static const ::paceline::data::DatasourceRegistration paceline_datasource_##function(#function, \
                                                                                                        function)
