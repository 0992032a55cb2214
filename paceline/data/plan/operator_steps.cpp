#include <arrow/buffer.h>
#include <arrow/scalar.h>
#include <arrow/type.h>
#include <arrow/util/base64.h>

#include <algorithm>

#include "paceline/data/operator/categories.h"
#include "paceline/data/operator/columns.h"
#include "paceline/data/operator/concatenate.h"
#include "paceline/data/operator/expression.h"
#include "paceline/data/operator/fill_missing.h"
#include "paceline/data/operator/forgiving.h"
#include "paceline/data/operator/map_batches.h"
#include "paceline/data/operator/part_by_hash.h"
#include "paceline/data/plan/steps_internal.h"

namespace paceline::data {
namespace {

namespace compute = arrow::compute;

using Made = arrow::Result<std::shared_ptr<const Operator>>;

Made make_select(const Plan& plan) {
  return select_columns(plan.options.at("columns"));
}

Made make_drop(const Plan& plan) {
  return drop_columns(plan.options.at("columns"));
}

Made make_rename(const Plan& plan) {
  return rename_columns(plan.options.at("names"));
}

Made make_filter(const Plan& plan) {
  ARROW_ASSIGN_OR_RAISE(auto condition, expression_of(plan.options.at("expression")));
  return filter(std::move(condition));
}

Made make_with_column(const Plan& plan) {
  ARROW_ASSIGN_OR_RAISE(auto value, expression_of(plan.options.at("expression")));
  return with_column(plan.options.at("name"), std::move(value),
                     plan.options.value("numbers", std::vector<std::string>()));
}

Made make_encode_categories(const Plan& plan) {
  ARROW_ASSIGN_OR_RAISE(const auto values, expression_of(plan.options.at("values")));
  const arrow::Datum* const literal = values.literal();
  if (literal == nullptr || !literal->is_scalar() || literal->type()->id() != arrow::Type::LIST) {
    return arrow::Status::Invalid("the values of a step 'encode_categories' are no list: ", values.ToString());
  }
  const int encoding = plan.options.value("encoding", 0);
  if (encoding < 0 || encoding > static_cast<int>(Encoding::inverse)) {
    return arrow::Status::Invalid("encoding is ", encoding, "; allowed: 0 to ", static_cast<int>(Encoding::inverse));
  }
  return encode_categories({.column = plan.options.at("column"),
                            .output = plan.options.at("name"),
                            .values = literal->scalar_as<arrow::ListScalar>().value,
                            .encoding = static_cast<Encoding>(encoding)});
}

Made make_fill_missing(const Plan& plan) {
  ARROW_ASSIGN_OR_RAISE(const auto value, expression_of(plan.options.at("value")));
  const arrow::Datum* const literal = value.literal();
  if (literal == nullptr || !literal->is_scalar() || !literal->scalar()->is_valid) {
    return arrow::Status::Invalid("the value of a step 'fill_missing' is none: ", value.ToString());
  }
  return fill_missing(
      {.column = plan.options.at("column"), .output = plan.options.at("name"), .value = literal->scalar()});
}

Made make_concatenate(const Plan& plan) {
  ConcatenateOptions options{.columns = plan.options.at("columns"),
                             .output = plan.options.at("name"),
                             .flatten = plan.options.value("flatten", false)};
  if (plan.options.contains("type")) {  // a null of it
    ARROW_ASSIGN_OR_RAISE(const auto null, expression_of(plan.options["type"]));
    if (null.literal() == nullptr) return arrow::Status::Invalid("the type of a step 'concatenate' is no literal");
    options.type = null.literal()->type();
    if (!arrow::is_numeric(options.type->id())) {
      return arrow::Status::Invalid("the type of a step 'concatenate' is ", options.type->ToString(),
                                    "; wanted: one of numbers");
    }
  }
  return concatenate_columns(std::move(options));
}

Made make_map_batches(const Plan& plan) {
  MapBatchesOptions options{.udf_modifying_row_count = plan.options.value("udf_modifying_row_count", true)};
  if (plan.options.contains("batch_size")) options.batch_size = plan.options["batch_size"].get<int64_t>();
  options.on_error = plan.options.value("on_error", options.on_error);
  options.quarantine = plan.options.value("quarantine", options.quarantine);
  const int form = plan.options.value("form", static_cast<int>(FunctionForm::batches));
  if (form < 0 || form > static_cast<int>(FunctionForm::column)) {
    return arrow::Status::Invalid("form is ", form, "; allowed: 0 to ", static_cast<int>(FunctionForm::column));
  }
  return map_batches(plan.options.at("function"), options, static_cast<FunctionForm>(form),
                     plan.options.value("column", std::string()));
}

Made make_part_by_hash(const Plan& plan) {
  return part_by_hash({.column = plan.options.at("column"),
                       .fraction = plan.options.at("fraction"),
                       .complement = plan.options.value("complement", false)});
}

Made function_of(const Plan& plan) {
  if (plan.function == nullptr) return arrow::Status::Invalid("a step 'function' needs one");
  ARROW_ASSIGN_OR_RAISE(auto bad_rows, bad_rows_of(plan.options));
  return bad_rows == nullptr ? plan.function : forgiving(plan.function, std::move(bad_rows));
}

Wanted pass_select(const Plan& plan, Wanted wanted) {
  wanted.columns.emplace();
  add_names(*wanted.columns, plan.options.at("columns"));
  return wanted;
}

// What it drops has to be there.
Wanted pass_drop(const Plan& plan, Wanted wanted) {
  if (wanted.columns) add_names(*wanted.columns, plan.options.at("columns"));
  return wanted;
}

Wanted pass_rename(const Plan& plan, Wanted wanted) {
  std::map<std::string, std::string> before;
  std::vector<std::string> names;
  for (const auto& [old_name, new_name] : plan.options.at("names").get<std::map<std::string, std::string>>()) {
    before[new_name] = old_name;
    names.push_back(old_name);
  }
  for (compute::Expression& condition : wanted.conditions) condition = with_names(condition, before);
  if (!wanted.columns) return wanted;
  for (const std::string& name : *wanted.columns) add_names(names, {before.contains(name) ? before[name] : name});
  wanted.columns = std::move(names);
  return wanted;
}

Wanted pass_filter(const Plan& plan, Wanted wanted) {
  const auto condition = expression_of(plan.options.at("expression"));
  const auto columns = condition.ok() ? columns_of(*condition) : std::nullopt;
  if (!columns) return {};
  if (wanted.columns) add_names(*wanted.columns, *columns);
  std::ranges::copy(conjuncts(*condition), std::back_inserter(wanted.conditions));
  return wanted;
}

Wanted pass_part_by_hash(const Plan& plan, Wanted wanted) {
  if (wanted.columns) add_names(*wanted.columns, {plan.options.at("column")});
  return wanted;
}

// Of a step that makes the column `name` of others.
Wanted pass_made(const std::string& name, const std::vector<std::string>& of, Wanted wanted) {
  std::erase_if(wanted.conditions, [&](const compute::Expression& condition) {
    const auto read = columns_of(condition);
    return !read || std::ranges::find(*read, name) != read->end();
  });
  if (!wanted.columns) return wanted;
  std::erase(*wanted.columns, name);
  add_names(*wanted.columns, of);
  return wanted;
}

Wanted pass_with_column(const Plan& plan, Wanted wanted) {
  const auto value = expression_of(plan.options.at("expression"));
  const auto columns = value.ok() ? columns_of(*value) : std::nullopt;
  return columns ? pass_made(plan.options.at("name"), *columns, std::move(wanted)) : Wanted();
}

// Of a step that makes a column of one other.
Wanted pass_column(const Plan& plan, Wanted wanted) {
  return pass_made(plan.options.at("name"), {plan.options.at("column")}, std::move(wanted));
}

Wanted pass_concatenate(const Plan& plan, Wanted wanted) {
  return pass_made(plan.options.at("name"), plan.options.at("columns"), std::move(wanted));
}

constexpr OperatorStep kOperatorSteps[] = {
    {"select_columns", make_select, pass_select},
    {"drop_columns", make_drop, pass_drop},
    {"rename_columns", make_rename, pass_rename},
    {"filter", make_filter, pass_filter},
    {"with_column", make_with_column, pass_with_column},
    {"part_by_hash", make_part_by_hash, pass_part_by_hash},
    {"encode_categories", make_encode_categories, pass_column},
    {"fill_missing", make_fill_missing, pass_column},
    {"concatenate", make_concatenate, pass_concatenate},
    {"map_batches", make_map_batches, nullptr},
    {"function", function_of, nullptr},
};

}  // namespace

std::span<const OperatorStep> operator_steps() {
  return kOperatorSteps;
}

arrow::Result<arrow::compute::Expression> expression_of(const Json& option) {
  ARROW_ASSIGN_OR_RAISE(std::string bytes, arrow::util::base64_decode(option.get<std::string>()));
  return arrow::compute::Deserialize(arrow::Buffer::FromString(std::move(bytes)));
}

arrow::Result<Json> option_of(const arrow::compute::Expression& expression) {
  ARROW_ASSIGN_OR_RAISE(const auto bytes, arrow::compute::Serialize(expression));
  return Json(arrow::util::base64_encode(std::string_view(*bytes)));
}

}  // namespace paceline::data
