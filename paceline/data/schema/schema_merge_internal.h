// One schema for files that differ: what a column is in all of them, and batches of each brought into it.
//
// A column that a file does not have is null there; numbers become the wider type, and so do units of time, lists and
// strings; what has no common type (a number and a string) is an error that names both files. Pure functions.
#pragma once

#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/posix/forks.h"

namespace paceline::data {

/// The columns of files in the order in which they first appear, or `columns` of them in that order. Invalid where a
/// column's types do not go together, a name is there twice, or no file has one of `columns`. `paths`: of the files.
arrow::Result<std::shared_ptr<arrow::Schema>> merge_schemas(const std::vector<std::shared_ptr<arrow::Schema>>& schemas,
                                                            const std::vector<std::string>& paths,
                                                            const std::optional<std::vector<std::string>>& columns);

/// The columns of `schema` from a batch that may have others, in another order and of narrower types. Invalid for a
/// value that the wider type does not hold, as a float64 does not hold every int64.
arrow::Result<std::shared_ptr<arrow::RecordBatch>> fit_to_schema(const arrow::RecordBatch& batch,
                                                                 const std::shared_ptr<arrow::Schema>& schema);

/// The schema of the rows of several sources together: found when it is first asked for, since a function's columns are
/// known when it has been called. Thread-safe.
class SchemaOfAll {
 public:
  /// `schema`: of a source's rows.
  void add(std::function<arrow::Result<std::shared_ptr<arrow::Schema>>()> schema) {
    sources_.push_back(std::move(schema));
  }
  /// Columns in the order in which they first appear, each of a type that holds its values of all sources.
  arrow::Result<std::shared_ptr<arrow::Schema>> schema() const;
  /// A batch of one of the sources, with the columns and types of all: so that batches are alike wherever they come
  /// from.
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> fit(std::shared_ptr<arrow::RecordBatch> batch) const;

 private:
  struct Known {
    std::mutex mutex;
    std::shared_ptr<arrow::Schema> schema;
  };
  std::vector<std::function<arrow::Result<std::shared_ptr<arrow::Schema>>()>> sources_;
  const PerProcess<Known> known_;
};

/// Bytes that a row takes once decoded; nullopt where the types do not say, as for strings and lists.
std::optional<double> fixed_bytes_of_row(const arrow::Schema& schema);

}  // namespace paceline::data
