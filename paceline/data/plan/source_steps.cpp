#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

#include "paceline/data/plan/readers_internal.h"
#include "paceline/data/plan/steps_internal.h"
#include "paceline/data/source/cache.h"
#include "paceline/data/source/combined.h"
#include "paceline/data/source/ordered_rows_internal.h"
#include "paceline/data/source/sampled.h"
#include "paceline/data/source/views.h"

namespace paceline::data {
namespace {

using OpenedPlan = arrow::Result<OpenPlan>;

size_t cores() {
  return std::max(1U, std::thread::hardware_concurrency());
}

OpenedPlan shuffle(const Plan& plan, std::vector<OpenPlan> inputs, bool) {
  OpenPlan open = std::move(inputs.front());
  const std::string what = plan.options.at("what");
  const Shuffle asked = what == "rows" ? Shuffle::rows : what == "chunks" ? Shuffle::chunks : Shuffle::files;
  open.order.shuffle = std::max(open.order.shuffle, asked);
  open.order.seed = plan.options.value("seed", int64_t{0});
  open.order.seed_is_drawn = plan.options.value("drawn", false);
  return open;
}

// Rows first … first + rows - 1 of the input's order.
OpenedPlan range_of_rows(const Plan& plan, std::vector<OpenPlan> inputs, bool) {
  OpenPlan open = std::move(inputs.front());
  const int64_t first = plan.options.value("first", int64_t{0});
  const int64_t most = std::numeric_limits<int64_t>::max() - std::max<int64_t>(first, 0);
  const int64_t rows = plan.options.value("rows", most);
  if (first < 0 || rows < 0 || rows > most) {
    return arrow::Status::Invalid("rows ", first, " + ", rows, " of a dataset; wanted: numbers from 0");
  }
  // A shuffled order is one of all chunks: another part would be in another order, and have rows of this one.
  const bool is_shuffled = open.order.shuffle != Shuffle::none;
  const int64_t needed = is_shuffled ? std::numeric_limits<int64_t>::max() : first + rows;
  ARROW_ASSIGN_OR_RAISE(open.source, counted(open.source, needed, cores()));
  if (is_shuffled) {
    open.source = ordered(open.source, EpochOrder(open.source->chunks(), open.order));
    open.order = {};
  }
  open.source = range_of(open.source, first, rows);
  return open;
}

OpenedPlan random_sample(const Plan& plan, std::vector<OpenPlan> inputs, bool) {
  OpenPlan open = std::move(inputs.front());
  const SampleOptions options{.fraction = plan.options.at("fraction"),
                              .seed = plan.options.at("seed"),
                              .complement = plan.options.value("complement", false)};
  if (!(options.fraction >= 0 && options.fraction <= 1)) {
    return arrow::Status::Invalid("fraction is ", options.fraction, "; allowed: 0 to 1");
  }
  open.source = sampled(open.source, options);
  return open;
}

OpenedPlan repartition(const Plan& plan, std::vector<OpenPlan> inputs, bool) {
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

OpenedPlan cache_of(const Plan& plan, std::vector<OpenPlan> inputs, bool) {
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
OpenedPlan whole_batches(const Plan& plan, std::vector<OpenPlan> inputs, bool) {
  OpenPlan open = std::move(inputs.front());
  const int64_t rows = plan.options.at("rows");
  if (rows < 1) return arrow::Status::Invalid("batches of ", rows, " rows; wanted: at least 1");
  if (open.source->counts_rows()) open.source = in_multiples(open.source, rows);
  return open;
}

// Where one is shuffled, all are.
OpenedPlan union_of(const Plan&, std::vector<OpenPlan> inputs, bool) {
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
arrow::Result<std::vector<OrderedSource>> ordered_inputs(std::vector<OpenPlan>& inputs, bool stays, OpenPlan& all) {
  std::vector<OrderedSource> ordered;
  for (OpenPlan& input : inputs) {
    ARROW_ASSIGN_OR_RAISE(auto source, counted(input.source, std::numeric_limits<int64_t>::max(), cores()));
    ordered.push_back({.source = std::move(source), .order = input.order, .stays = stays});
    all.statistics.insert(all.statistics.end(), input.statistics.begin(), input.statistics.end());
  }
  return ordered;
}

OpenedPlan mix_of(const Plan& plan, std::vector<OpenPlan> inputs, bool stays) {
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
  ARROW_ASSIGN_OR_RAISE(auto ordered, ordered_inputs(inputs, stays, open));
  std::vector<int64_t> rows;
  for (const OrderedSource& input : ordered) rows.push_back(OrderedRows(input).rows());
  MixOrder order(weights, rows, stop == "first" ? MixStop::first : stop == "all" ? MixStop::all : MixStop::repeat);
  open.source = interleaved(std::move(ordered), std::move(order));
  return open;
}

OpenedPlan zip_of(const Plan&, std::vector<OpenPlan> inputs, bool stays) {
  OpenPlan open;
  ARROW_ASSIGN_OR_RAISE(auto ordered, ordered_inputs(inputs, stays, open));
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

// By chance a row is taken by its number, where nothing in front of it leaves rows out; otherwise by its chunk, which
// are others where fewer columns are read.
bool keeps_rows(const Plan& plan) {
  constexpr std::string_view kKinds[] = {"select_columns", "drop_columns", "rename_columns", "with_column", "shuffle"};
  if (row_of(readers(), plan.kind) != nullptr)
    return plan.kind == "read_parquet" || plan.kind == "read_feather" || plan.kind == "read_orc";
  return std::ranges::find(kKinds, plan.kind) != std::end(kKinds) &&
         std::ranges::all_of(plan.inputs, [](const auto& input) { return keeps_rows(*input); });
}

Wanted pass_sample(const Plan& plan, Wanted wanted) {
  if (!std::ranges::all_of(plan.inputs, [](const auto& input) { return keeps_rows(*input); })) return {};
  wanted.conditions.clear();
  return wanted;
}

Wanted pass_size_of_blocks(const Plan&, Wanted wanted) {
  return {.small_blocks = wanted.small_blocks};
}

constexpr SourceStep kSourceSteps[] = {
    {"shuffle", "Shuffle", false, false, shuffle, pass_all},
    {"range", "Slice", false, true, range_of_rows, pass_range},
    {"random_sample", "RandomSample", false, true, random_sample, pass_sample},
    {"repartition", "Repartition", false, false, repartition, pass_all},
    {"cache", "Cache", false, false, cache_of, pass_size_of_blocks},
    {"whole_batches", "WholeBatches", false, false, whole_batches, pass_all},
    {"union", "Union", true, false, union_of, pass_size_of_blocks},
    {"mix", "Mix", true, false, mix_of, nullptr},
    {"zip", "Zip", true, false, zip_of, nullptr},
};

}  // namespace

std::span<const SourceStep> source_steps() {
  return kSourceSteps;
}

}  // namespace paceline::data
