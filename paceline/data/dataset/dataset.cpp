#include "paceline/data/dataset/dataset.h"

#include <filesystem>

#include "paceline/core/error.h"
#include "paceline/data/dataset/shared_internal.h"
#include "paceline/data/plan/steps_internal.h"

namespace paceline::data {
namespace {

int64_t at_least_one(const char* name, int64_t value) {
  if (value >= 1) return value;
  throw ConfigError(std::string(name) + " is " + std::to_string(value) + "; allowed: a number from 1");
}

// Of functions that give plans.
std::vector<Dataset> datasets_of(arrow::Result<std::vector<SharedPlan>> plans) {
  std::vector<Dataset> parts;
  for (SharedPlan& plan : value_or_throw(std::move(plans))) parts.emplace_back(std::move(plan));
  return parts;
}

std::pair<Dataset, Dataset> datasets_of(arrow::Result<TwoPlans> plans) {
  auto [first, second] = value_or_throw(std::move(plans));
  return {Dataset(std::move(first)), Dataset(std::move(second))};
}

}  // namespace

Dataset::Dataset(Plan plan) : Dataset(std::make_shared<const Plan>(std::move(plan))) {}

Dataset::Dataset(SharedPlan plan) : shared_(std::make_shared<Shared>(std::move(plan))) {}

const Plan& Dataset::plan() const {
  return *shared_->plan;
}

Dataset Dataset::step(std::string kind, Json options, const std::vector<Dataset>& others) const {
  std::vector<SharedPlan> plans;
  for (const Dataset& other : others) plans.push_back(other.shared_->plan);
  return Dataset(step_behind(shared_->plan, std::move(kind), std::move(options), plans));
}

Dataset Dataset::select_columns(const std::vector<std::string>& names) const {
  return step("select_columns", {{"columns", names}});
}

Dataset Dataset::drop_columns(const std::vector<std::string>& names) const {
  return step("drop_columns", {{"columns", names}});
}

Dataset Dataset::rename_columns(const std::map<std::string, std::string>& names) const {
  return step("rename_columns", {{"names", names}});
}

Dataset Dataset::filter(const arrow::compute::Expression& condition) const {
  return step("filter", {{"expression", value_or_throw(option_of(condition))}});
}

Dataset Dataset::with_column(const std::string& name, const arrow::compute::Expression& value) const {
  return step("with_column", {{"name", name}, {"expression", value_or_throw(option_of(value))}});
}

Dataset Dataset::with_columns(const std::vector<std::pair<std::string, arrow::compute::Expression>>& values) const {
  Dataset made = *this;
  for (const auto& [name, value] : values) made = made.with_column(name, value);
  return made;
}

Dataset Dataset::map_batches(const std::string& function, const MapBatchesOptions& options) const {
  return call(FunctionForm::batches, function, options);
}

Dataset Dataset::call(FunctionForm form, const std::string& function, const MapBatchesOptions& options,
                      const std::string& column) const {
  Json json{{"function", function}};
  add_bad_rows(options.on_error, options.quarantine, json);
  value_or_throw(data::map_batches(function, options, form, column));
  if (form == FunctionForm::batches) {
    json["udf_modifying_row_count"] = options.udf_modifying_row_count;
  } else {
    json["form"] = static_cast<int>(form);
  }
  if (form == FunctionForm::column) json["column"] = column;
  if (!options.batch_size) return step("map_batches", std::move(json));
  json["batch_size"] = *options.batch_size;
  // All batches but the last are whole, across blocks, where rows are counted.
  return step("whole_batches", {{"rows", *options.batch_size}}).step("map_batches", std::move(json));
}

Dataset Dataset::limit(int64_t rows) const {
  return Dataset(value_or_throw(limited_plan(shared_->plan, rows)));
}

Dataset Dataset::union_with(const std::vector<Dataset>& others) const {
  return step("union", Json::object(), others);
}

Dataset Dataset::mix(const std::vector<Dataset>& others, const MixOptions& options) const {
  const MixStop stop = options.stopping_condition;
  Json json{{"stop", stop == MixStop::first ? "first" : stop == MixStop::all ? "all" : "repeat"}};
  if (!options.weights.empty()) {
    if (options.weights.size() != 1 + others.size()) {
      throw ConfigError("mix(): there are " + std::to_string(options.weights.size()) + " weights for " +
                        std::to_string(1 + others.size()) + " datasets; wanted: one for each");
    }
    json["weights"] = options.weights;
  }
  return step("mix", std::move(json), others);
}

Dataset Dataset::zip(const std::vector<Dataset>& others) const {
  return step("zip", Json::object(), others);
}

Dataset Dataset::cache(const CacheSettings& options) const {
  constexpr int64_t kInMemory = int64_t{1} << 30;
  Json json = Json::object();
  if (options.path) {
    json = {{"path", std::filesystem::absolute(*options.path).string()}, {"version", options.version}};
  }
  if (options.bytes && *options.bytes < 0) {
    throw ConfigError("cache()'s bytes are " + std::to_string(*options.bytes) + "; allowed: a number from 0");
  }
  if (options.bytes || !options.path) json["bytes"] = options.bytes.value_or(kInMemory);
  return step("cache", std::move(json));
}

Dataset Dataset::random_shuffle(const ShuffleOptions& options) const {
  return Dataset(shuffled_plan(shared_->plan, "rows", options.seed));
}

Dataset Dataset::randomize_block_order(const ShuffleOptions& options) const {
  return Dataset(shuffled_plan(shared_->plan, "chunks", options.seed));
}

Dataset Dataset::randomize_file_order(const ShuffleOptions& options) const {
  return Dataset(shuffled_plan(shared_->plan, "files", options.seed));
}

Dataset Dataset::repartition(int64_t num_blocks) const {
  return step("repartition", {{"blocks", at_least_one("num_blocks", num_blocks)}});
}

std::vector<Dataset> Dataset::split(int64_t n, const SplitOptions& options) const {
  return datasets_of(split_plan(shared_->plan, count(), n, options.equal));
}

std::vector<Dataset> Dataset::split_at_indices(const std::vector<int64_t>& indices) const {
  return datasets_of(split_plan_at(shared_->plan, indices));
}

std::vector<Dataset> Dataset::split_proportionately(const std::vector<double>& proportions) const {
  return datasets_of(split_plan_by(shared_->plan, count(), proportions));
}

std::pair<Dataset, Dataset> Dataset::train_test_split(const TestSize& test_size,
                                                      const TrainTestSplitOptions& options) const {
  return datasets_of(train_and_test(shared_->plan, count(), test_size, options.shuffle, options.seed));
}

std::pair<Dataset, Dataset> Dataset::streaming_train_test_split(double test_size, const StreamingSplit& options) const {
  return datasets_of(streaming_train_and_test(shared_->plan, test_size, options));
}

Dataset Dataset::random_sample(double fraction, const SampleSeed& options) const {
  return Dataset(value_or_throw(sampled_plan(shared_->plan, fraction, options.seed)));
}

std::string Dataset::explain() const {
  return data::explain(plan());
}

}  // namespace paceline::data
