#include "paceline/data/plan/plan.h"

#include <arrow/buffer.h>
#include <arrow/compute/expression.h>
#include <arrow/filesystem/filesystem.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/base64.h>

#include <algorithm>
#include <limits>
#include <span>
#include <thread>

#include "paceline/data/operator/columns.h"
#include "paceline/data/operator/expression.h"
#include "paceline/data/source/parquet_source.h"
#include "paceline/data/source/views.h"

namespace paceline::data {
namespace {

size_t cores() {
  return std::max(1U, std::thread::hardware_concurrency());
}

struct FoundFiles {
  std::shared_ptr<arrow::fs::FileSystem> file_system;
  std::vector<arrow::fs::FileInfo> files;
};

// TODO(files.h)
arrow::Result<FoundFiles> find_files(const std::vector<std::string>& paths) {
  FoundFiles found;
  for (const std::string& path : paths) {
    std::string inside;
    ARROW_ASSIGN_OR_RAISE(found.file_system, arrow::fs::FileSystemFromUriOrPath(path, &inside));
    ARROW_ASSIGN_OR_RAISE(const auto info, found.file_system->GetFileInfo(inside));
    if (info.type() != arrow::fs::FileType::Directory) {
      found.files.push_back(info);
      continue;
    }
    arrow::fs::FileSelector selector;
    selector.base_dir = inside;
    selector.recursive = true;
    ARROW_ASSIGN_OR_RAISE(auto all, found.file_system->GetFileInfo(selector));
    std::ranges::sort(all, {}, [](const auto& file) { return file.path(); });
    for (const auto& file : all) {
      if (file.IsFile() && file.extension() == "parquet") found.files.push_back(file);
    }
  }
  return found;
}

arrow::Result<std::shared_ptr<const Source>> read_parquet(const Plan& plan) {
  ARROW_ASSIGN_OR_RAISE(const FoundFiles found, find_files(plan.options.at("paths").get<std::vector<std::string>>()));
  ParquetOptions options;
  if (plan.options.contains("columns")) options.columns = plan.options["columns"].get<std::vector<std::string>>();
  return parquet_source(found.file_system, found.files, options);
}

arrow::Result<std::shared_ptr<const Source>> rows_in_memory(const Plan& plan) {
  if (plan.rows.empty()) return arrow::Status::Invalid("a data set needs at least the columns of its rows");
  return memory_source(plan.rows.front()->schema(), plan.rows);
}

// How rows come into a plan: its first step.
struct Begin {
  std::string_view kind;
  std::string_view name;  // as statistics and plans show it
  arrow::Result<std::shared_ptr<const Source>> (*open)(const Plan&);
};

constexpr Begin kBegins[] = {{"read_parquet", "ReadParquet", read_parquet}, {"rows", "Rows", rows_in_memory}};

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
  for (const Begin& begin : kBegins) {
    if (plan.kind != begin.kind) continue;
    ARROW_ASSIGN_OR_RAISE(auto source, begin.open(plan));
    auto statistics = std::make_shared<OperatorStatistics>(std::string(begin.name));
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
  for (const Begin& begin : kBegins) {
    if (plan.kind != begin.kind) continue;
    std::string text(begin.name);
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
    return arrow::Status::Invalid("the options of step '", plan.kind, "' are ", plan.options.dump(), ": ", error.what());
  }
}

std::string explain(const Plan& plan) {
  std::string text;
  for (const auto& input : plan.inputs) text += explain(*input);
  return text + line_of(plan) + "\n";
}

}  // namespace paceline::data
