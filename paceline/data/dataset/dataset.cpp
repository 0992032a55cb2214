#include "paceline/data/dataset/dataset.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <random>

#include "paceline/core/error.h"
#include "paceline/data/dataset/shared_internal.h"
#include "paceline/data/plan/steps_internal.h"

namespace paceline::data {
namespace {

int64_t drawn_seed() {
  std::random_device device;
  return static_cast<int64_t>((static_cast<uint64_t>(device()) << 31) ^ device()) & std::numeric_limits<int64_t>::max();
}

Json shuffle_of(const char* what, const ShuffleOptions& options) {
  return {{"what", what}, {"seed", options.seed ? *options.seed : drawn_seed()}};
}

int64_t at_least_one(const char* name, int64_t value) {
  if (value >= 1) return value;
  throw ConfigError(std::string(name) + " is " + std::to_string(value) + "; allowed: a number from 1");
}

}  // namespace

Dataset::Dataset(Plan plan) : shared_(std::make_shared<Shared>(std::move(plan))) {}

const Plan& Dataset::plan() const {
  return *shared_->plan;
}

Dataset Dataset::step(std::string kind, Json options, const std::vector<Dataset>& others) const {
  Plan plan{.kind = std::move(kind), .options = std::move(options), .inputs = {shared_->plan}};
  for (const Dataset& other : others) plan.inputs.push_back(other.shared_->plan);
  return Dataset(std::move(plan));
}

Dataset Dataset::range(int64_t first, int64_t rows) const {
  return step("range", {{"first", first}, {"rows", rows}});
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

Dataset Dataset::map_batches(const std::string& function, const MapBatchesOptions& options) const {
  value_or_throw(data::map_batches(function, options));
  Json json{{"function", function}, {"udf_modifying_row_count", options.udf_modifying_row_count}};
  if (options.batch_size) json["batch_size"] = *options.batch_size;
  return step("map_batches", std::move(json));
}

Dataset Dataset::limit(int64_t rows) const {
  if (rows < 0) throw ConfigError("limit() is " + std::to_string(rows) + "; allowed: a number from 0");
  return range(0, rows);
}

Dataset Dataset::union_with(const std::vector<Dataset>& others) const {
  return step("union", Json::object(), others);
}

Dataset Dataset::random_shuffle(const ShuffleOptions& options) const {
  return step("shuffle", shuffle_of("rows", options));
}

Dataset Dataset::randomize_block_order(const ShuffleOptions& options) const {
  return step("shuffle", shuffle_of("chunks", options));
}

Dataset Dataset::randomize_file_order(const ShuffleOptions& options) const {
  return step("shuffle", shuffle_of("files", options));
}

Dataset Dataset::repartition(int64_t num_blocks) const {
  return step("repartition", {{"blocks", at_least_one("num_blocks", num_blocks)}});
}

std::vector<Dataset> Dataset::split(int64_t n, const SplitOptions& options) const {
  at_least_one("split()'s n", n);
  const int64_t rows = count();
  std::vector<Dataset> parts;
  for (int64_t part = 0; part < n; ++part) {
    const int64_t first = options.equal ? rows / n * part : rows * part / n;
    const int64_t end = options.equal ? rows / n * (part + 1) : rows * (part + 1) / n;
    parts.push_back(range(first, end - first));
  }
  return parts;
}

std::vector<Dataset> Dataset::split_at_indices(const std::vector<int64_t>& indices) const {
  if (!std::ranges::is_sorted(indices) || (!indices.empty() && indices.front() < 0)) {
    throw ConfigError("split_at_indices(): wanted: numbers from 0, sorted");
  }
  std::vector<Dataset> parts;
  int64_t first = 0;
  for (const int64_t end : indices) {
    parts.push_back(range(first, end - first));
    first = end;
  }
  parts.push_back(range(first, std::numeric_limits<int64_t>::max() - first));
  return parts;
}

std::pair<Dataset, Dataset> Dataset::train_test_split(double test_size, const TrainTestSplitOptions& options) const {
  if (!(test_size > 0 && test_size < 1)) {
    throw ConfigError("test_size is " + std::to_string(test_size) + "; allowed: a part between 0 and 1");
  }
  const int64_t rows = count();
  const auto test_rows = static_cast<int64_t>(std::ceil(static_cast<double>(rows) * test_size));
  const Dataset mixed = options.shuffle ? random_shuffle({.seed = options.seed}) : *this;
  return {mixed.range(0, rows - test_rows), mixed.range(rows - test_rows, test_rows)};
}

std::string Dataset::explain() const {
  return data::explain(plan());
}

}  // namespace paceline::data
