#include <arrow/compute/api.h>
#include <arrow/compute/initialize.h>
#include <arrow/scalar.h>
#include <arrow/type.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/metadata.h>
#include <parquet/statistics.h>

#include <algorithm>
#include <optional>
#include <set>

#include "paceline/data/format/parquet_pruning_internal.h"
#include "paceline/data/schema/missing_column_internal.h"

namespace paceline::data {
namespace {

namespace cp = arrow::compute;

bool is_value(const cp::Expression& expression) {
  const auto* const call = expression.call();
  return call == nullptr || (call->function_name == "cast" && is_value(call->arguments[0]));
}

// Whether a row passes only by a value that is neither null nor NaN, of which min and max say nothing: comparisons of
// values, joined by "and" and "or". A negation, or a comparison of a comparison, lets them pass.
bool needs_values(const cp::Expression& filter) {
  static const std::set<std::string> joins = {"and", "and_kleene", "or", "or_kleene"};
  static const std::set<std::string> comparisons = {"equal", "less", "less_equal", "greater", "greater_equal"};
  const auto* const call = filter.call();
  if (call == nullptr) return filter.literal() != nullptr;
  if (joins.contains(call->function_name)) return std::ranges::all_of(call->arguments, needs_values);
  return comparisons.contains(call->function_name) && std::ranges::all_of(call->arguments, is_value);
}

// What is known of the values of a column in a row group.
std::optional<cp::Expression> known_of(const arrow::Field& field, const parquet::Statistics& statistics, int64_t rows,
                                       bool needs_value) {
  const auto column = cp::field_ref(arrow::FieldRef(field.name()));
  if (statistics.HasNullCount() && statistics.null_count() == rows) return cp::is_null(column);
  if (!statistics.HasMinMax() || (arrow::is_floating(field.type()->id()) && !needs_value)) return std::nullopt;
  std::shared_ptr<arrow::Scalar> min;
  std::shared_ptr<arrow::Scalar> max;
  if (!parquet::arrow::StatisticsAsScalars(statistics, &min, &max).ok()) return std::nullopt;
  const auto typed_min = cp::Cast(arrow::Datum(min), field.type());
  const auto typed_max = cp::Cast(arrow::Datum(max), field.type());
  if (!typed_min.ok() || !typed_max.ok()) return std::nullopt;
  auto range =
      cp::and_(cp::greater_equal(column, cp::literal(*typed_min)), cp::less_equal(column, cp::literal(*typed_max)));
  if (needs_value || (statistics.HasNullCount() && statistics.null_count() == 0)) return range;
  return cp::or_(std::move(range), cp::is_null(column));
}

}  // namespace

arrow::Result<cp::Expression> bind_filter(const cp::Expression& filter, const arrow::Schema& schema) {
  static const arrow::Status initialized = cp::Initialize();
  ARROW_RETURN_NOT_OK(initialized);
  const std::string whose = "the filter " + filter.ToString();
  ARROW_RETURN_NOT_OK(check_columns(whose, filter, schema));
  auto bound = filter.Bind(schema);
  if (!bound.ok()) return bound.status().WithMessage(whose, ": ", bound.status().message());
  if ((*bound).type()->id() != arrow::Type::BOOL) {
    return arrow::Status::Invalid("the filter ", filter.ToString(), " is ", (*bound).type()->ToString(), ", not bool");
  }
  return bound;
}

bool may_pass(const cp::Expression& filter, const arrow::Schema& schema, const parquet::arrow::SchemaManifest& manifest,
              const parquet::RowGroupMetaData& row_group) {
  const bool needs_value = needs_values(filter);
  cp::Expression simplified = filter;
  for (const arrow::FieldRef& reference : cp::FieldsInExpression(filter)) {
    const auto path = reference.FindOneOrNone(schema);
    if (!path.ok() || path->indices().size() != 1) continue;
    const auto& field = *schema.field(path->indices()[0]);
    const auto found =
        std::ranges::find(manifest.schema_fields, field.name(), [](const auto& there) { return there.field->name(); });
    std::optional<cp::Expression> known;
    if (found == manifest.schema_fields.end()) {
      known = cp::is_null(cp::field_ref(arrow::FieldRef(field.name())));
    } else if (found->is_leaf() && found->children.empty()) {
      const auto statistics = row_group.ColumnChunk(found->column_index)->statistics();
      if (statistics != nullptr) known = known_of(field, *statistics, row_group.num_rows(), needs_value);
    }
    if (!known) continue;
    const auto bound = known->Bind(schema);
    if (!bound.ok()) continue;
    auto simpler = cp::SimplifyWithGuarantee(simplified, *bound);
    if (simpler.ok()) simplified = *std::move(simpler);
  }
  return simplified.IsSatisfiable();
}

}  // namespace paceline::data
