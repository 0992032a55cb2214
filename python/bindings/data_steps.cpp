// data/plan/edit.h: plans that are made of a plan.
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "paceline/core/error.h"
#include "paceline/data/plan/edit.h"
#include "paceline/data/plan/paths.h"
#include "python/bindings/modules.h"

namespace paceline::python {
namespace {

namespace py = pybind11;
using Plan = std::shared_ptr<data::Plan>;

Plan given(const data::SharedPlan& plan) {
  return std::const_pointer_cast<data::Plan>(plan);
}

Plan given(arrow::Result<data::SharedPlan> plan) {
  return given(value_or_throw(std::move(plan)));
}

std::vector<Plan> given(arrow::Result<std::vector<data::SharedPlan>> plans) {
  std::vector<Plan> all;
  for (const auto& plan : value_or_throw(std::move(plans))) all.push_back(given(plan));
  return all;
}

std::vector<Plan> given(arrow::Result<data::TwoPlans> plans) {
  const auto [first, second] = value_or_throw(std::move(plans));
  return {given(first), given(second)};
}

data::TestSize test_size_of(const std::variant<int64_t, double>& size) {
  return std::visit([](auto value) { return data::TestSize(value); }, size);
}

}  // namespace

void bind_data_steps(py::module_& module) {
  module.def(
      "shuffled_plan",
      [](const Plan& plan, const std::string& what, std::optional<int64_t> seed) {
        return given(data::shuffled_plan(plan, what, seed));
      },
      py::arg("plan"), py::arg("what"), py::arg("seed"));
  module.def(
      "limited_plan", [](const Plan& plan, int64_t rows) { return given(data::limited_plan(plan, rows)); },
      py::arg("plan"), py::arg("rows"));
  module.def(
      "sampled_plan",
      [](const Plan& plan, double fraction, std::optional<int64_t> seed) {
        return given(data::sampled_plan(plan, fraction, seed));
      },
      py::arg("plan"), py::arg("fraction"), py::arg("seed"));
  module.def(
      "split_plan",
      [](const Plan& plan, int64_t rows, int64_t n, bool equal) {
        return given(data::split_plan(plan, rows, n, equal));
      },
      py::arg("plan"), py::arg("rows"), py::arg("n"), py::arg("equal"));
  module.def(
      "split_plan_at",
      [](const Plan& plan, const std::vector<int64_t>& indices) { return given(data::split_plan_at(plan, indices)); },
      py::arg("plan"), py::arg("indices"));
  module.def(
      "split_plan_by",
      [](const Plan& plan, int64_t rows, const std::vector<double>& proportions) {
        return given(data::split_plan_by(plan, rows, proportions));
      },
      py::arg("plan"), py::arg("rows"), py::arg("proportions"));
  module.def(
      "train_and_test",
      [](const Plan& plan, int64_t rows, const std::variant<int64_t, double>& test_size, bool shuffle,
         std::optional<int64_t> seed) {
        return given(data::train_and_test(plan, rows, test_size_of(test_size), shuffle, seed));
      },
      py::arg("plan"), py::arg("rows"), py::arg("test_size"), py::arg("shuffle"), py::arg("seed"));
  module.def(
      "streaming_train_and_test",
      [](const Plan& plan, double test_size, std::string split_type, std::optional<std::string> hash_column,
         std::optional<int64_t> seed) {
        return given(data::streaming_train_and_test(
            plan, test_size,
            {.split_type = std::move(split_type), .hash_column = std::move(hash_column), .seed = seed}));
      },
      py::arg("plan"), py::arg("test_size"), py::arg("split_type"), py::arg("hash_column"), py::arg("seed"));
  module.def("input_files", [](const Plan& plan) { return data::input_files(*plan); }, py::arg("plan"));
  module.def(
      "check_paths",
      [](const Plan& plan, const std::string& whose) {
        const arrow::Status found = data::check_paths(*plan);
        throw_if_error(found.ok() ? found : found.WithMessage(whose, ": ", found.message()));
      },
      py::arg("plan"), py::arg("whose"), py::call_guard<py::gil_scoped_release>());
}

}  // namespace paceline::python
