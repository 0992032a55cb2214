#include <algorithm>

#include "paceline/data/plan/wanted_internal.h"

namespace paceline::data {
namespace {

namespace cp = arrow::compute;

// The column in which a value is: of a field of a struct, that of the struct. A null pointer where it is named by
// place.
const std::string* column_of(const arrow::FieldRef& reference) {
  const auto* const nested = reference.nested_refs();
  return nested == nullptr ? reference.name() : nested->front().name();
}

arrow::FieldRef renamed(const arrow::FieldRef& reference, const std::map<std::string, std::string>& names) {
  const std::string* const column = column_of(reference);
  const auto found = column == nullptr ? names.end() : names.find(*column);
  if (found == names.end()) return reference;
  if (reference.nested_refs() == nullptr) return {found->second};
  std::vector<arrow::FieldRef> path = *reference.nested_refs();
  path.front() = arrow::FieldRef(found->second);
  return arrow::FieldRef(std::move(path));
}

}  // namespace

std::optional<std::vector<std::string>> columns_of(const cp::Expression& expression) {
  std::vector<std::string> names;
  for (const arrow::FieldRef& reference : cp::FieldsInExpression(expression)) {
    const std::string* const column = column_of(reference);
    if (column == nullptr) return std::nullopt;
    add_names(names, {*column});
  }
  return names;
}

cp::Expression with_names(const cp::Expression& expression, const std::map<std::string, std::string>& names) {
  if (const arrow::FieldRef* const reference = expression.field_ref()) return cp::field_ref(renamed(*reference, names));
  const cp::Expression::Call* const call = expression.call();
  if (call == nullptr) return expression;
  std::vector<cp::Expression> arguments;
  for (const cp::Expression& argument : call->arguments) arguments.push_back(with_names(argument, names));
  return cp::call(call->function_name, std::move(arguments), call->options);
}

std::vector<cp::Expression> conjuncts(const cp::Expression& expression) {
  const cp::Expression::Call* const call = expression.call();
  if (call == nullptr || (call->function_name != "and" && call->function_name != "and_kleene")) return {expression};
  std::vector<cp::Expression> parts;
  for (const cp::Expression& argument : call->arguments) {
    std::ranges::copy(conjuncts(argument), std::back_inserter(parts));
  }
  return parts;
}

void add_names(std::vector<std::string>& names, const std::vector<std::string>& more) {
  for (const std::string& name : more) {
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
}

}  // namespace paceline::data
