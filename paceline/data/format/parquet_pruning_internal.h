// Which row groups a filter needs not look at: those whose statistics say that no row can pass.
#pragma once

#include <arrow/compute/expression.h>
#include <arrow/result.h>
#include <arrow/type_fwd.h>

namespace parquet {
class RowGroupMetaData;
namespace arrow {
struct SchemaManifest;
}
}  // namespace parquet

namespace paceline::data {

/// The filter for rows of `schema`. Invalid for columns that it does not have, and types that do not go together.
arrow::Result<arrow::compute::Expression> bind_filter(const arrow::compute::Expression& filter,
                                                      const arrow::Schema& schema);

/// Whether a row of the row group may pass; true where that cannot be told. `filter`: as bind_filter() gives it for
/// `schema`, of which the file, whose columns `manifest` has, may lack some.
bool may_pass(const arrow::compute::Expression& filter, const arrow::Schema& schema,
              const parquet::arrow::SchemaManifest& manifest, const parquet::RowGroupMetaData& row_group);

}  // namespace paceline::data
