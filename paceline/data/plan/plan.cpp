#include "paceline/data/plan/plan.h"

#include <arrow/buffer.h>
#include <arrow/compute/expression.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/base64.h>

#include <algorithm>
#include <limits>
#include <thread>

#include "paceline/data/operator/columns.h"
#include "paceline/data/operator/expression.h"
#include "paceline/data/plan/readers_internal.h"
#include "paceline/data/source/views.h"

namespace paceline::data {
namespace {

size_t cores() {
  return std::max(1U, std::thread::hardware_concurrency());
}

arrow::Result<arrow::compute::Expression> expression_of(const Plan& plan) {
  ARROW_ASSIGN_OR_RAISE(std::string bytes,
                        arrow::util::base64_decode(plan.options.at("expression").get<std::string>()));
  return arrow::compute::Deserialize(arrow::Buffer::FromString(std::move(bytes)));
}

// An operator on blocks.
arrow::Result<std::shared_ptr<const Operator>> operator_of(const Plan& plan) {
  if (plan.kind == "function") return plan.function;
  if (plan.kind == "select_columns") return select_columns(plan.options.at("columns"));
  if (plan.kind == "drop_columns") return drop_columns(plan.options.at("columns"));
  if (plan.kind == "rename_columns") return rename_columns(plan.options.at("names"));
  if (plan.kind == "filter") {
    ARROW_ASSIGN_OR_RAISE(auto condition, expression_of(plan));
    return filter(std::move(condition));
  }
  if (plan.kind == "with_column") {
    ARROW_ASSIGN_OR_RAISE(auto value, expression_of(plan));
    return with_column(plan.options.at("name"), std::move(value));
  }
  return nullptr;
}

arrow::Status shuffle(const Plan& plan, OpenPlan& open) {
  const std::string what = plan.options.at("what");
  const Shuffle asked = what == "rows" ? Shuffle::rows : what == "chunks" ? Shuffle::chunks : Shuffle::files;
  open.order.shuffle = std::max(open.order.shuffle, asked);
  open.order.seed = plan.options.value("seed", int64_t{0});
  return arrow::Status::OK();
}

// Rows first … first + rows - 1 of the input's order.
arrow::Status range(const Plan& plan, OpenPlan& open) {
  const int64_t first = plan.options.value("first", int64_t{0});
  const int64_t rows = plan.options.value("rows", std::numeric_limits<int64_t>::max() - first);
  ARROW_ASSIGN_OR_RAISE(open.source, counted(open.source, first + rows, cores()));
  if (open.order.shuffle != Shuffle::none) {
    open.source = ordered(open.source, EpochOrder(open.source->chunks(), open.order));
    open.order = {};
  }
  open.source = range_of(open.source, first, rows);
  return arrow::Status::OK();
}

arrow::Status repartition(const Plan& plan, OpenPlan& open) {
  ARROW_ASSIGN_OR_RAISE(open.source, counted(open.source, std::numeric_limits<int64_t>::max(), cores()));
  open.source = repartitioned(open.source, plan.options.at("blocks"));
  return arrow::Status::OK();
}

arrow::Result<OpenPlan> open_union(const Plan& plan) {
  OpenPlan all;
  std::vector<std::shared_ptr<const Source>> sources;
  for (const auto& input : plan.inputs) {
    ARROW_ASSIGN_OR_RAISE(OpenPlan open, data::open(*input));
    sources.push_back(std::move(open.source));
    if (open.order.shuffle > all.order.shuffle) all.order = open.order;
    all.statistics.insert(all.statistics.end(), open.statistics.begin(), open.statistics.end());
  }
  all.source = concatenated(std::move(sources));
  return all;
}

arrow::Result<OpenPlan> open_step(const Plan& plan) {
  for (const Reader& reader : readers()) {
    if (plan.kind != reader.kind) continue;
    ARROW_ASSIGN_OR_RAISE(auto source, reader.open(plan));
    auto statistics = std::make_shared<OperatorStatistics>(std::string(reader.name));
    return OpenPlan{.source = measured(std::move(source), statistics), .order = {}, .statistics = {statistics}};
  }
  if (plan.kind == "union") return open_union(plan);
  if (plan.inputs.size() != 1) return arrow::Status::Invalid("there is no step '", plan.kind, "'");
  ARROW_ASSIGN_OR_RAISE(OpenPlan open, data::open(*plan.inputs.front()));
  if (plan.kind == "shuffle") {
    ARROW_RETURN_NOT_OK(shuffle(plan, open));
  } else if (plan.kind == "range") {
    ARROW_RETURN_NOT_OK(range(plan, open));
  } else if (plan.kind == "repartition") {
    ARROW_RETURN_NOT_OK(repartition(plan, open));
  } else {
    ARROW_ASSIGN_OR_RAISE(const std::shared_ptr<const Operator> step, operator_of(plan));
    if (step == nullptr) return arrow::Status::Invalid("there is no step '", plan.kind, "'");
    open.statistics.push_back(std::make_shared<OperatorStatistics>(step->name()));
    open.source = transformed(open.source, step, open.statistics.back());
  }
  return open;
}

std::string line_of(const Plan& plan) {
  for (const Reader& reader : readers()) {
    if (plan.kind != reader.kind) continue;
    std::string text(reader.name);
    if (plan.options.contains("paths")) text += "(" + plan.options["paths"].dump() + ")";
    return text;
  }
  const auto step = operator_of(plan);
  if (step.ok() && *step != nullptr) return (*step)->name();
  return plan.kind + "(" + plan.options.dump() + ")";
}

}  // namespace

arrow::Result<OpenPlan> open(const Plan& plan) {
  try {
    return open_step(plan);
  } catch (const Json::exception& error) {
    return arrow::Status::Invalid("the options of step '", plan.kind, "' are ", plan.options.dump(), ": ",
                                  error.what());
  }
}

std::string explain(const Plan& plan) {
  std::string text;
  for (const auto& input : plan.inputs) text += explain(*input);
  return text + line_of(plan) + "\n";
}

}  // namespace paceline::data
