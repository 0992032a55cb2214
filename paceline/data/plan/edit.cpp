#include "paceline/data/plan/edit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace paceline::data {
namespace {

// A seed as steps have it: `drawn` is one that nobody has chosen.
Json with_seed(Json options, std::optional<int64_t> seed) {
  if (!seed) {
    std::random_device device;
    const uint64_t bits = (static_cast<uint64_t>(device()) << 32) | device();
    seed = static_cast<int64_t>(bits >> 2);
    options["drawn"] = true;
  }
  options["seed"] = *seed;
  return options;
}

SharedPlan range_of(const SharedPlan& input, int64_t first, int64_t rows) {
  return step_behind(input, "range", {{"first", first}, {"rows", rows}});
}

// The parts that end there, one behind the other.
std::vector<SharedPlan> parts_until(const SharedPlan& input, const std::vector<int64_t>& ends) {
  std::vector<SharedPlan> parts;
  int64_t first = 0;
  for (const int64_t end : ends) {
    parts.push_back(range_of(input, first, end - first));
    first = end;
  }
  return parts;
}

bool is_part(double value) {
  return value > 0 && value < 1;
}

}  // namespace

SharedPlan step_behind(const SharedPlan& input, std::string kind, Json options, const std::vector<SharedPlan>& others) {
  Plan plan{.kind = std::move(kind), .options = std::move(options), .inputs = {input}};
  plan.inputs.insert(plan.inputs.end(), others.begin(), others.end());
  return std::make_shared<Plan>(std::move(plan));
}

SharedPlan shuffled_plan(const SharedPlan& input, const std::string& what, std::optional<int64_t> seed) {
  return step_behind(input, "shuffle", with_seed({{"what", what}}, seed));
}

arrow::Result<SharedPlan> limited_plan(const SharedPlan& input, int64_t rows) {
  if (rows >= 0) return range_of(input, 0, rows);
  return arrow::Status::Invalid("limit is ", rows, "; allowed: a whole number from 0");
}

arrow::Result<SharedPlan> sampled_plan(const SharedPlan& input, double fraction, std::optional<int64_t> seed) {
  if (fraction >= 0 && fraction <= 1) {
    return step_behind(input, "random_sample", with_seed({{"fraction", fraction}}, seed));
  }
  return arrow::Status::Invalid("fraction is ", Json(fraction).dump(), "; allowed: 0 to 1");
}

arrow::Result<std::vector<SharedPlan>> split_plan(const SharedPlan& input, int64_t rows, int64_t n, bool equal) {
  if (n < 1) return arrow::Status::Invalid("n is ", n, "; allowed: a whole number from 1");
  std::vector<int64_t> ends;
  for (int64_t part = 1; part <= n; ++part) {
    ends.push_back(equal ? rows / n * part : static_cast<int64_t>(static_cast<__int128>(rows) * part / n));
  }
  return parts_until(input, ends);
}

arrow::Result<std::vector<SharedPlan>> split_plan_at(const SharedPlan& input, const std::vector<int64_t>& indices) {
  if (!std::ranges::is_sorted(indices) || (!indices.empty() && indices.front() < 0)) {
    return arrow::Status::Invalid("indices are ", Json(indices).dump(), "; wanted: numbers from 0, sorted");
  }
  std::vector<int64_t> ends = indices;
  ends.push_back(std::numeric_limits<int64_t>::max());
  return parts_until(input, ends);
}

arrow::Result<std::vector<SharedPlan>> split_plan_by(const SharedPlan& input, int64_t rows,
                                                     const std::vector<double>& proportions) {
  double sum = 0;
  for (const double part : proportions) sum += part;
  if (proportions.empty() || !std::ranges::all_of(proportions, is_part) || !is_part(sum)) {
    return arrow::Status::Invalid("proportions are ", Json(proportions).dump(),
                                  "; wanted: numbers above 0 whose sum is below 1");
  }
  std::vector<int64_t> indices;
  double done = 0;
  for (const double part : proportions) {
    done += part;
    // A proportion such as 0.1 is a double a little beside it, and so are sums of them: that must cost no row.
    indices.push_back(static_cast<int64_t>(std::floor(static_cast<double>(rows) * (done + 1e-14))));
  }
  // No part is empty: the last leaves one row for what is left, and each gives those that the parts behind it need.
  int64_t end = rows;
  for (auto index = indices.rbegin(); index != indices.rend(); ++index) end = *index = std::min(*index, end - 1);
  if (end <= 0) {
    return arrow::Status::Invalid(rows, " rows are too few for a row in each part of ", Json(proportions).dump(),
                                  " and in what is left");
  }
  return split_plan_at(input, indices);
}

arrow::Result<TwoPlans> train_and_test(const SharedPlan& input, int64_t rows, const TestSize& test_size, bool shuffle,
                                       std::optional<int64_t> seed) {
  int64_t of_test = 0;
  if (const double* const part = std::get_if<double>(&test_size.value())) {
    if (!is_part(*part)) {
      return arrow::Status::Invalid("test_size is ", Json(*part).dump(),
                                    "; allowed: a part between 0 and 1, or a number of rows");
    }
    of_test = static_cast<int64_t>(std::ceil(static_cast<double>(rows) * *part));
  } else {
    of_test = std::get<int64_t>(test_size.value());
  }
  if (of_test < 1 || of_test >= rows) {
    return arrow::Status::Invalid("test_size is ", of_test, " rows; allowed: 1 to ", rows - 1, ", since there are ",
                                  rows, " rows");
  }
  const SharedPlan mixed = shuffle ? shuffled_plan(input, "rows", seed) : input;
  return TwoPlans(range_of(mixed, 0, rows - of_test), range_of(mixed, rows - of_test, of_test));
}

arrow::Result<TwoPlans> streaming_train_and_test(const SharedPlan& input, double test_size,
                                                 const StreamingSplit& options) {
  if (!is_part(test_size)) {
    return arrow::Status::Invalid("test_size is ", Json(test_size).dump(), "; allowed: a part between 0 and 1");
  }
  const bool by_hash = options.split_type == "hash";
  if ((!by_hash && options.split_type != "random") || by_hash != options.hash_column.has_value()) {
    return arrow::Status::Invalid("split_type is '", options.split_type, "' and hash_column ",
                                  options.hash_column ? "'" + *options.hash_column + "'" : "is not given",
                                  "; allowed: 'random', or 'hash' with one");
  }
  Json of_test = {{"fraction", test_size}};
  if (by_hash) {
    of_test["column"] = *options.hash_column;
  } else {
    of_test = with_seed(std::move(of_test), options.seed);
  }
  Json of_train = of_test;
  of_train["complement"] = true;
  const char* const kind = by_hash ? "part_by_hash" : "random_sample";
  return TwoPlans(step_behind(input, kind, std::move(of_train)), step_behind(input, kind, std::move(of_test)));
}

}  // namespace paceline::data
