// The history as an Arrow table: one column per metric.
#include <arrow/array/builder_binary.h>
#include <arrow/array/builder_primitive.h>

#include <array>
#include <limits>
#include <map>

#include "paceline/core/json.h"
#include "paceline/core/metric_values.h"
#include "paceline/track/metrics_history.h"

namespace paceline::track {
namespace {

constexpr std::array kOwnNames = {"report", "attempt", "rank", "time", "checkpoint"};

enum class Kind { none, integer, number, boolean, text };

Kind kind_of(const Json& value) {
  if (value.is_null()) return Kind::none;
  if (value.is_boolean()) return Kind::boolean;
  if (value.is_number_float()) return Kind::number;
  if (value.is_number_unsigned() && value.get<uint64_t>() > std::numeric_limits<int64_t>::max()) return Kind::number;
  return value.is_number() ? Kind::integer : Kind::text;
}

Kind common_kind(Kind a, Kind b) {
  if (a == Kind::none || a == b) return b;
  if (b == Kind::none) return a;
  const bool numbers = (a == Kind::integer || a == Kind::number) && (b == Kind::integer || b == Kind::number);
  return numbers ? Kind::number : Kind::text;
}

struct Column {
  std::string name;
  Kind kind = Kind::none;
  std::vector<const Json*> values;  // by row; null where the row lacks it
};

class Columns {
 public:
  explicit Columns(size_t rows) : rows_(rows) {}

  // Values before objects, so that a literal name with '/' wins over a nested one.
  void add(size_t row, const std::string& prefix, const Json& object) {
    for (const auto& [name, value] : object.items()) {
      if (!value.is_object() && name != kKeysMember) add_value(row, prefix + name, value);
    }
    for (const auto& [name, value] : object.items()) {
      if (value.is_object()) add(row, prefix + name + "/", value);
    }
  }

  const std::vector<Column>& columns() const { return columns_; }

 private:
  void add_value(size_t row, const std::string& name, const Json& value) {
    const auto [place, is_new] = place_.emplace(name, columns_.size());
    if (is_new) columns_.push_back({.name = name, .values = std::vector<const Json*>(rows_)});
    Column& column = columns_[place->second];
    if (column.values[row] != nullptr) return;
    column.values[row] = &value;
    column.kind = common_kind(column.kind, kind_of(value));
  }

  size_t rows_;
  std::vector<Column> columns_;
  std::map<std::string, size_t> place_;
};

template <class Builder, class Values, class Convert>
arrow::Result<std::shared_ptr<arrow::Array>> build(const Values& values, Convert convert) {
  Builder builder;
  ARROW_RETURN_NOT_OK(builder.Reserve(static_cast<int64_t>(values.size())));
  for (const auto& value : values) ARROW_RETURN_NOT_OK(convert(builder, value));
  return builder.Finish();
}

template <class Builder, class Get>
arrow::Result<std::shared_ptr<arrow::Array>> build_metric(const Column& column, Get get) {
  return build<Builder>(column.values, [&](Builder& builder, const Json* value) {
    return value == nullptr || value->is_null() ? builder.AppendNull() : builder.Append(get(*value));
  });
}

arrow::Result<std::shared_ptr<arrow::Array>> metric_array(const Column& column) {
  switch (column.kind) {
    case Kind::integer:
      return build_metric<arrow::Int64Builder>(column, [](const Json& value) { return value.get<int64_t>(); });
    case Kind::none:
    case Kind::number:
      return build_metric<arrow::DoubleBuilder>(column, [](const Json& value) { return value.get<double>(); });
    case Kind::boolean:
      return build_metric<arrow::BooleanBuilder>(column, [](const Json& value) { return value.get<bool>(); });
    case Kind::text:
      break;
  }
  return build_metric<arrow::StringBuilder>(
      column, [](const Json& value) { return value.is_string() ? value.get<std::string>() : encode_json(value); });
}

}  // namespace

arrow::Result<std::shared_ptr<arrow::Table>> history_table(const std::vector<HistoryRow>& rows) {
  arrow::FieldVector fields;
  arrow::ArrayVector arrays;
  const auto add = [&](const std::string& name, std::shared_ptr<arrow::Array> array) {
    fields.push_back(arrow::field(name, array->type()));
    arrays.push_back(std::move(array));
  };
  const auto add_member = [&]<class Builder, class Member>(const char* name, Member member) -> arrow::Status {
    ARROW_ASSIGN_OR_RAISE(
        auto array,
        (build<Builder>(rows, [&](Builder& builder, const HistoryRow& row) { return builder.Append(row.*member); })));
    add(name, std::move(array));
    return arrow::Status::OK();
  };
  ARROW_RETURN_NOT_OK(add_member.template operator()<arrow::Int64Builder>("report", &HistoryRow::report));
  ARROW_RETURN_NOT_OK(add_member.template operator()<arrow::Int64Builder>("attempt", &HistoryRow::attempt));
  ARROW_RETURN_NOT_OK(add_member.template operator()<arrow::Int64Builder>("rank", &HistoryRow::rank));
  ARROW_RETURN_NOT_OK(add_member.template operator()<arrow::DoubleBuilder>("time", &HistoryRow::time));
  ARROW_ASSIGN_OR_RAISE(auto checkpoints, build<arrow::StringBuilder>(rows, [](auto& builder, const HistoryRow& row) {
                          return row.checkpoint.empty() ? builder.AppendNull() : builder.Append(row.checkpoint);
                        }));
  add("checkpoint", std::move(checkpoints));

  Columns metrics(rows.size());
  for (size_t row = 0; row < rows.size(); ++row) {
    const Json& cells = rows[row].reduced.is_null() ? rows[row].metrics : rows[row].reduced;
    if (cells.is_object()) metrics.add(row, "", cells);
  }
  for (const Column& column : metrics.columns()) {
    ARROW_ASSIGN_OR_RAISE(auto array, metric_array(column));
    const bool is_own = std::find(kOwnNames.begin(), kOwnNames.end(), column.name) != kOwnNames.end();
    add(is_own ? "metrics/" + column.name : column.name, std::move(array));
  }
  return arrow::Table::Make(arrow::schema(fields), arrays, static_cast<int64_t>(rows.size()));
}

}  // namespace paceline::track
