#include <arrow/buffer.h>
#include <arrow/util/base64.h>

#include "paceline/data/operator/columns.h"
#include "paceline/data/operator/expression.h"
#include "paceline/data/plan/steps_internal.h"

namespace paceline::data {
namespace {

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
  return with_column(plan.options.at("name"), std::move(value));
}

Made function_of(const Plan& plan) {
  if (plan.function == nullptr) return arrow::Status::Invalid("a step 'function' needs one");
  return plan.function;
}

constexpr OperatorStep kOperatorSteps[] = {
    {"select_columns", make_select}, {"drop_columns", make_drop},       {"rename_columns", make_rename},
    {"filter", make_filter},         {"with_column", make_with_column}, {"function", function_of},
};

}  // namespace

std::span<const OperatorStep> operator_steps() {
  return kOperatorSteps;
}

arrow::Result<arrow::compute::Expression> expression_of(const Json& option) {
  ARROW_ASSIGN_OR_RAISE(std::string bytes, arrow::util::base64_decode(option.get<std::string>()));
  return arrow::compute::Deserialize(arrow::Buffer::FromString(std::move(bytes)));
}

}  // namespace paceline::data
