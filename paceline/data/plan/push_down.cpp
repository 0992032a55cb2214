#include "paceline/data/plan/push_down.h"

#include <arrow/buffer.h>
#include <arrow/util/base64.h>

#include <algorithm>

#include "paceline/data/plan/readers_internal.h"
#include "paceline/data/plan/steps_internal.h"

namespace paceline::data {
namespace {

// A block that a function is called with is in memory four times: as it was read, as the function's process sees it,
// and what is made of it there and here. Blocks for functions are smaller, so that budgets have room for several.
constexpr int64_t kBlockBytesForFunctions = int64_t{16} << 20;

// What the step wants of its input, where `wanted` is wanted of it.
Wanted passed(const Plan& plan, Wanted wanted) {
  if (plan.kind == "function" || plan.kind == "map_batches") return {.small_blocks = true};
  const OperatorStep* const on_blocks = row_of(operator_steps(), plan.kind);
  const SourceStep* const on_sources = row_of(source_steps(), plan.kind);
  const auto pass = on_blocks != nullptr ? on_blocks->pass : on_sources != nullptr ? on_sources->pass : nullptr;
  if (pass == nullptr) return {};
  try {
    return pass(plan, std::move(wanted));
  } catch (const Json::exception&) {
    return {};  // open() says what is wrong with the options
  }
}

// The names of `wanted` in their order, where the reader, which may have been told names already, has them all.
void choose_columns(Plan& reader, const std::vector<std::string>& wanted) {
  if (reader.options.contains("on_error")) return;  // which rows are bad depends on the columns that are read
  if (wanted.empty()) return;  // files are read for the number of their rows, which not every format can do
  if (reader.options.contains("columns")) {
    const Json& there = reader.options["columns"];
    const bool has_all = std::ranges::all_of(
        wanted, [&](const std::string& name) { return std::find(there.begin(), there.end(), name) != there.end(); });
    if (!has_all) return;  // an error, which a later step explains
  }
  reader.options["columns"] = wanted;
}

Plan reading(Plan reader, const Wanted& wanted) {
  const Reader& row = *row_of(readers(), reader.kind);
  if (row.takes_columns && wanted.columns) choose_columns(reader, *wanted.columns);
  if (row.takes_filter && !wanted.conditions.empty()) {
    const auto bytes = arrow::compute::Serialize(arrow::compute::and_(wanted.conditions));
    if (bytes.ok()) reader.options["filter"] = arrow::util::base64_encode(std::string_view(**bytes));
  }
  if (row.takes_block_bytes && wanted.small_blocks) reader.options["block_bytes"] = kBlockBytesForFunctions;
  return reader;
}

Plan pushed(const Plan& plan, const Wanted& wanted) {
  if (row_of(readers(), plan.kind) != nullptr) return reading(plan, wanted);
  Plan made = plan;
  for (auto& input : made.inputs) input = std::make_shared<Plan>(pushed(*input, passed(plan, wanted)));
  // What the reader does now need not be done again.
  if (plan.kind == "select_columns" && made.inputs.size() == 1 &&
      row_of(readers(), made.inputs.front()->kind) != nullptr &&
      made.inputs.front()->options.value("columns", Json()) == plan.options.value("columns", Json::array())) {
    return *made.inputs.front();
  }
  return made;
}

}  // namespace

Plan pushed_down(const Plan& plan) {
  return pushed(plan, {});
}

}  // namespace paceline::data
