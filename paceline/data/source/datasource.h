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
  /// error of the block. All tasks give the same columns. That of the first task is also called where only columns and
  /// sizes are asked for; where it gives no rows, those of the next few are, too.
  std::function<std::shared_ptr<arrow::RecordBatch>()> read;
  /// How many rows it gives; nullopt where that is not known before it is read. Where all tasks say it, rows are
  /// counted without reading.
  std::optional<int64_t> num_rows = std::nullopt;
  /// About, of the rows in memory; nullopt: as of the first task that has rows. What is read ahead and mixed together
  /// goes by it, so a state of an iteration is refused where it has become another.
  std::optional<int64_t> size_bytes = std::nullopt;
};

/// Lists the tasks of a source, in the order of its rows. read_datasource() calls it, and each process that reads does
/// so once more: it gives the same tasks for the same options everywhere. Processes that read have not run main(), so
/// what that has set, from the command line for one, is given as options. A listing with other rows or sizes is an
/// error.
using Datasource = std::vector<ReadTask> (*)(const Json& options);

/// Registers the function. ConfigError if another has that name.
void register_datasource(const std::string& name, Datasource datasource);
/// The name of a function. UsageError, which says how to register it, if it has none.
std::string datasource_name(Datasource datasource);

/// What a function has listed.
struct DatasourceListing {
  int64_t tasks = 0;
  uint64_t fingerprint = 0;  ///< of the name, the options, and the rows and bytes that the tasks say
};
/// What the function of that name lists. Invalid where there is none of that name, with those that there are, or where
/// a task has no function or numbers below 0; and with what the function throws.
arrow::Result<DatasourceListing> datasource_listing(const std::string& name, const Json& options);
/// The source of that function. Invalid as datasource_listing() says it, and where the listing is not the `wanted` one.
arrow::Result<std::unique_ptr<Source>> datasource_source(const std::string& name, const Json& options,
                                                         const DatasourceListing& wanted);

/// Registers a function before main, where nothing could catch an error: an error ends the program with its text.
struct DatasourceRegistration {
  DatasourceRegistration(const char* name, Datasource datasource) noexcept { register_datasource(name, datasource); }
};

}  // namespace paceline::data

/// Registers a source for read_datasource(), at the scope of the function's own namespace.
///
///     std::vector<paceline::data::ReadTask> squares(const paceline::Json& options) {
///       std::vector<paceline::data::ReadTask> tasks;
///       const auto rows = options.at("rows").get<int64_t>();
///       for (int64_t first = 0; first < rows; first += 1000) {
///         tasks.push_back({.read = [first] { return squares_from(first, 1000); }, .num_rows = 1000});
///       }
///       return tasks;
///     }
///     PACELINE_DATASOURCE(squares);
#define PACELINE_DATASOURCE(function)                                                                              \
  [[maybe_unused]] static const ::paceline::data::DatasourceRegistration paceline_datasource_##function(#function, \
                                                                                                        function)
