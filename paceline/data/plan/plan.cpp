#include "paceline/data/plan/plan.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "paceline/data/plan/push_down.h"
#include "paceline/data/plan/readers_internal.h"
#include "paceline/data/plan/steps_internal.h"
#include "paceline/storage/location.h"

namespace paceline::data {
namespace {

arrow::Result<OpenPlan> open_as_it_is(const Plan& plan, bool stays);

// `stays`: as of SourceStep::open().
arrow::Result<OpenPlan> open_step(const Plan& plan, bool stays) {
  if (const Reader* const reader = row_of(readers(), plan.kind)) {
    ARROW_ASSIGN_OR_RAISE(auto source, reader->open(plan));
    auto statistics = std::make_shared<OperatorStatistics>(std::string(reader->name));
    return OpenPlan{.source = measured(std::move(source), statistics), .order = {}, .statistics = {statistics}};
  }
  const OperatorStep* const on_blocks = row_of(operator_steps(), plan.kind);
  const SourceStep* const on_sources = row_of(source_steps(), plan.kind);
  if (on_blocks == nullptr && on_sources == nullptr) {
    return arrow::Status::Invalid("there is no step '", plan.kind, "'");
  }
  const bool takes_several = on_sources != nullptr && on_sources->takes_several;
  if (plan.inputs.empty() || (plan.inputs.size() > 1 && !takes_several)) {
    return arrow::Status::Invalid("the step '", plan.kind, "' has ", plan.inputs.size(),
                                  " inputs; wanted: ", takes_several ? "at least one" : "one");
  }
  std::vector<OpenPlan> inputs;
  for (const auto& input : plan.inputs) {
    const bool takes_part = on_sources != nullptr && on_sources->takes_part;
    ARROW_ASSIGN_OR_RAISE(inputs.emplace_back(), open_as_it_is(*input, stays || takes_part));
  }
  if (on_sources != nullptr) return on_sources->open(plan, std::move(inputs), stays);
  ARROW_ASSIGN_OR_RAISE(const std::shared_ptr<const Operator> step, on_blocks->make(plan));
  OpenPlan open = std::move(inputs.front());
  open.statistics.push_back(std::make_shared<OperatorStatistics>(step->name()));
  open.source = transformed(open.source, step, open.statistics.back(), open.statistics.size());
  return open;
}

// Names of files may be no text.
std::string shown(const Json& option) {
  return option.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// "Slice(first=1, rows=4)"
std::string with_options(std::string_view name, const Json& options) {
  std::string text;
  for (const auto& [key, value] : options.items()) text += (text.empty() ? "" : ", ") + key + "=" + shown(value);
  return std::string(name) + (text.empty() ? "" : "(" + text + ")");
}

std::string line_of(const Plan& plan) {
  if (const Reader* const reader = row_of(readers(), plan.kind)) {
    std::string text(reader->name);
    if (plan.kind == "source") text += plan.options.value("name", "");
    if (plan.kind == "datasource") return text + "(" + plan.options.at("name").get<std::string>() + ")";
    if (!plan.options.contains("paths")) return text;
    Json paths = Json::array();
    for (const std::string path : plan.options["paths"]) paths.push_back(storage::Location(path).text());  // no keys
    text += "(" + shown(paths);
    if (plan.options.contains("columns")) text += ", columns=" + shown(plan.options["columns"]);
    if (plan.options.contains("filter")) {
      const auto filter = expression_of(plan.options["filter"]);
      if (filter.ok()) text += ", filter=" + filter->ToString();
    }
    return text + ")";
  }
  if (const OperatorStep* const row = row_of(operator_steps(), plan.kind)) {
    const auto step = row->make(plan);
    if (step.ok()) return (*step)->name();
  }
  const SourceStep* const row = row_of(source_steps(), plan.kind);
  return with_options(row != nullptr ? row->name : plan.kind, plan.options);
}

arrow::Result<OpenPlan> open_as_it_is(const Plan& plan, bool stays) {
  try {
    return open_step(plan, stays);
  } catch (const Json::exception& error) {
    return arrow::Status::Invalid("the options of step '", plan.kind, "' are ", shown(plan.options), ": ",
                                  error.what());
  }
}

std::string lines_of(const Plan& plan) {
  std::string text;
  for (const auto& input : plan.inputs) text += lines_of(*input);
  try {
    text += line_of(plan);
  } catch (const Json::exception&) {
    text += with_options(plan.kind, plan.options);  // open() says what is wrong with them
  }
  return text + "\n";
}

bool calls_functions(const Plan& plan) {
  return plan.function != nullptr || plan.source != nullptr || plan.kind == "map_batches" ||
         std::ranges::any_of(plan.inputs, [](const auto& input) { return calls_functions(*input); });
}

}  // namespace

PlanInputs::~PlanInputs() {
  std::vector<std::shared_ptr<const Plan>> left = std::move(*this);
  while (!left.empty()) {
    const std::shared_ptr<const Plan> plan = std::move(left.back());
    left.pop_back();
    if (plan == nullptr || plan.use_count() > 1) continue;
    // Nobody else has it, so that it ends here: its inputs next, and not within its end.
    PlanInputs& inputs = const_cast<Plan&>(*plan).inputs;  // NOLINT(cppcoreguidelines-pro-type-const-cast)
    std::ranges::move(inputs, std::back_inserter(left));
    inputs.clear();
  }
}

arrow::Status check_depth(const Plan& plan) {
  std::unordered_map<const Plan*, int64_t> depths;
  std::vector<const Plan*> path = {&plan};
  while (!path.empty()) {
    const Plan* const step = path.back();
    int64_t depth = 1;
    const auto unknown = std::ranges::find_if(step->inputs, [&](const auto& input) {
      const auto known = depths.find(input.get());
      if (known != depths.end()) depth = std::max(depth, known->second + 1);
      return known == depths.end();
    });
    if (unknown != step->inputs.end()) {
      path.push_back(unknown->get());
      continue;
    }
    if (depth > kDeepestPlan) {
      return arrow::Status::Invalid("the dataset has more than ", kDeepestPlan,
                                    " steps one behind the other; give union() all datasets at once, or write what "
                                    "there is to files and read them");
    }
    depths[step] = depth;
    path.pop_back();
  }
  return arrow::Status::OK();
}

arrow::Result<OpenPlan> open(const Plan& plan) {
  ARROW_RETURN_NOT_OK(check_depth(plan));
  ARROW_ASSIGN_OR_RAISE(OpenPlan open, open_as_it_is(pushed_down(plan), false));
  open.calls_functions = calls_functions(plan);
  return open;
}

std::string explain(const Plan& plan) {
  const arrow::Status status = check_depth(plan);
  return status.ok() ? lines_of(pushed_down(plan)) : status.message() + "\n";
}

}  // namespace paceline::data
