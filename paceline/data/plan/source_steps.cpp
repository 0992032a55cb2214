#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

#include "paceline/data/plan/steps_internal.h"
#include "paceline/data/source/cache.h"
#include "paceline/data/source/combined.h"
#include "paceline/data/source/ordered_rows_internal.h"
#include "paceline/data/source/views.h"

namespace paceline::data {
namespace {

using OpenedPlan = arrow::Result<OpenPlan>;

size_t cores() {
  return std::max(1U, std::thread::hardware_concurrency());
}

OpenedPlan shuffle(const Plan& plan, std::vector<OpenPlan> inputs) {
  OpenPlan open = std::move(inputs.front());
  const std::string what = plan.options.at("what");
  const Shuffle asked = what == "rows" ? Shuffle::rows : what == "chunks" ? Shuffle::chunks : Shuffle::files;
  open.order.shuffle = std::max(open.order.shuffle, asked);
  open.order.seed = plan.options.value("seed", int64_t{0});
  return open;
}

// Rows first … first + rows - 1 of the input's order.
OpenedPlan range_of_rows(const Plan& plan, std::vector<OpenPlan> inputs) {
  OpenPlan open = std::move(inputs.front());
  const int64_t first = plan.options.value("first", int64_t{0});
  const int64_t most = std::numeric_limits<int64_t>::max() - std::max<int64_t>(first, 0);
  const int64_t rows = plan.options.value("rows", most);
  if (first < 0 || rows < 0 || rows > most) {
    return arrow::Status::Invalid("rows ", first, " + ", rows, " of a dataset; wanted: numbers from 0");
  }
  ARROW_ASSIGN_OR_RAISE(open.source, counted(open.source, first + rows, cores()));
  if (open.order.shuffle != Shuffle::none) {
    open.source = ordered(open.source, EpochOrder(open.source->chunks(), open.order));
    open.order = {};
  }
  open.source = range_of(open.source, first, rows);
  return open;
}

OpenedPlan repartition(const Plan& plan, std::vector<OpenPlan> inputs) {
  OpenPlan open = std::move(inputs.front());
  ARROW_ASSIGN_OR_RAISE(open.source, counted(open.source, std::numeric_limits<int64_t>::max(), cores()));
  const int64_t blocks = plan.options.at("blocks");
  if (blocks < 1) return arrow::Status::Invalid("repartition() to ", blocks, " blocks; wanted: at least 1");
  open.source = repartitioned(open.source, blocks);
  return open;
}

bool has_rows_in_memory(const Plan& plan) {
  return plan.kind == "rows" ||
         std::ranges::any_of(plan.inputs, [](const auto& input) { return has_rows_in_memory(*input); });
}

OpenedPlan cache_of(const Plan& plan, std::vector<OpenPlan> inputs) {
  CacheOptions options;
  options.path = plan.options.value("path", options.path);
  if (plan.options.contains("bytes")) options.bytes = plan.options["bytes"].get<int64_t>();
  options.version = mix_text(0, plan.options.value("version", std::string()));
  if (!options.path.empty() && has_rows_in_memory(plan)) {
    return arrow::Status::Invalid(
        "rows that are in memory have no name by which a cache on a disk would know them; "
        "write them to files, or leave the path out");
  }
  OpenPlan open = std::move(inputs.front());
  ARROW_ASSIGN_OR_RAISE(open.source, cached(open.source, options));
  return open;
}

// Blocks of whole batches, where it is known without reading how many rows there are.
OpenedPlan whole_batches(const Plan& plan, std::vector<OpenPlan> inputs) {
  OpenPlan open = std::move(inputs.front());
  const int64_t rows = plan.options.at("rows");
  if (rows < 1) return arrow::Status::Invalid("batches of ", rows, " rows; wanted: at least 1");
  if (open.source->counts_rows()) open.source = in_multiples(open.source, rows);
  return open;
}

// Where one is shuffled, all are.
OpenedPlan union_of(const Plan&, std::vector<OpenPlan> inputs) {
  OpenPlan all;
  std::vector<std::shared_ptr<const Source>> sources;
  for (OpenPlan& input : inputs) {
    sources.push_back(std::move(input.source));
    if (input.order.shuffle > all.order.shuffle) all.order = input.order;
    all.statistics.insert(all.statistics.end(), input.statistics.begin(), input.statistics.end());
  }
  all.source = concatenated(std::move(sources));
  return all;
}

// The inputs with rows that are counted, each in its own order, and all their statistics.
arrow::Result<std::vector<OrderedSource>> ordered_inputs(std::vector<OpenPlan>& inputs, OpenPlan& all) {
  std::vector<OrderedSource> ordered;
  for (OpenPlan& input : inputs) {
    ARROW_ASSIGN_OR_RAISE(auto source, counted(input.source, std::numeric_limits<int64_t>::max(), cores()));
    ordered.push_back({.source = std::move(source), .order = input.order});
    all.statistics.insert(all.statistics.end(), input.statistics.begin(), input.statistics.end());
  }
  return ordered;
}

OpenedPlan mix_of(const Plan& plan, std::vector<OpenPlan> inputs) {
  const auto weights = plan.options.value("weights", std::vector<double>(inputs.size(), 1.0));
  if (weights.size() != inputs.size() ||
      !std::ranges::all_of(weights, [](double weight) { return weight > 0 && std::isfinite(weight); })) {
    return arrow::Status::Invalid("the weights are ", plan.options["weights"].dump(), "; wanted: ", inputs.size(),
                                  " numbers above 0, one for each dataset");
  }
  const std::string stop = plan.options.value("stop", std::string("all"));
  const bool is_known = stop == "first" || stop == "all" || stop == "repeat";
  if (!is_known) return arrow::Status::Invalid("stop is '", stop, "'; allowed: 'first', 'all', 'repeat'");
  OpenPlan open;
  ARROW_ASSIGN_OR_RAISE(auto ordered, ordered_inputs(inputs, open));
  std::vector<int64_t> rows;
  for (const OrderedSource& input : ordered) rows.push_back(OrderedRows(input).rows());
  MixOrder order(weights, rows, stop == "first" ? MixStop::first : stop == "all" ? MixStop::all : MixStop::repeat);
  open.source = interleaved(std::move(ordered), std::move(order));
  return open;
}

OpenedPlan zip_of(const Plan&, std::vector<OpenPlan> inputs) {
  OpenPlan open;
  ARROW_ASSIGN_OR_RAISE(auto ordered, ordered_inputs(inputs, open));
  ARROW_ASSIGN_OR_RAISE(open.source, zipped(std::move(ordered)));
  return open;
}

Wanted pass_all(const Plan&, Wanted wanted) {
  return wanted;
}

bool has_shuffle(const Plan& plan) {
  return plan.kind == "shuffle" ||
         std::ranges::any_of(plan.inputs, [](const auto& input) { return has_shuffle(*input); });
}

Wanted pass_range(const Plan& plan, Wanted wanted) {
  // An order by chance depends on the chunks, which are others where fewer columns are read: then the two parts of a
  // split, of which one has a filter, would have rows in common.
  if (std::ranges::any_of(plan.inputs, [](const auto& input) { return has_shuffle(*input); })) return {};
  wanted.conditions.clear();
  return wanted;
}

Wanted pass_size_of_blocks(const Plan&, Wanted wanted) {
  return {.small_blocks = wanted.small_blocks};
}

constexpr SourceStep kSourceSteps[] = {
    {"shuffle", "Shuffle", false, shuffle, pass_all},
    {"range", "Slice", false, range_of_rows, pass_range},
    {"repartition", "Repartition", false, repartition, pass_all},
    {"cache", "Cache", false, cache_of, pass_size_of_blocks},
    {"whole_batches", "WholeBatches", false, whole_batches, pass_all},
    {"union", "Union", true, union_of, pass_size_of_blocks},
    {"mix", "Mix", true, mix_of, nullptr},
    {"zip", "Zip", true, zip_of, nullptr},
};

}  // namespace

std::span<const SourceStep> source_steps() {
  return kSourceSteps;
}

}  // namespace paceline::data
