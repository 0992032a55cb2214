// core/config, train/torch_config.h: the settings, which are declared in C++ once: their names, defaults, bounds, help.
#include <pybind11/stl.h>

#include <optional>
#include <string>

#include "paceline/core/config/read.h"
#include "paceline/core/config/run_config.h"
#include "paceline/core/config/scaling_config.h"
#include "paceline/core/config/validation_config.h"
#include "paceline/core/error.h"
#include "paceline/run/run_place.h"
#include "paceline/train/torch_config.h"
#include "python/bindings/json.h"
#include "python/bindings/modules.h"

namespace paceline::python {
namespace {

namespace py = pybind11;

// What JSON cannot hold, such as a timedelta, is refused as any value of a wrong type is.
template <class Settings>
Json json_of(const py::handle& value, const std::string& owner, const std::string& field) {
  try {
    return to_json(value, owner + "." + field);
  } catch (const py::error_already_set& error) {
    if (!error.matches(PyExc_TypeError)) throw;
    const bool has_parts = py::isinstance<py::dict>(value) || py::isinstance<py::list>(value);
    if (!has_parts && !py::isinstance<py::int_>(value)) refuse_value<Settings>(owner, field, py::repr(value));
    throw ConfigError(py::str(error.value()));
  }
}

// `name` is the configuration's, `part` the module's that stands for it.
template <class Settings>
void bind(py::module_& module, const std::string& name, const char* part) {
  py::module_ declaration = module.def_submodule(part);
  declaration.def(
      "check",
      [name](const py::dict& values, const std::optional<std::string>& owner) {
        const std::string shown = owner.value_or(name);
        Json json = Json::object();
        for (const auto& [field, value] : values) {
          const std::string key = py::str(field);
          json[key] = json_of<Settings>(value, shown, key);
        }
        const auto settings = read_config<Settings>(json, shown);
        if constexpr (std::same_as<Settings, ScalingConfig>) refuse_impossible(settings);
      },
      py::arg("values"), py::arg("owner") = py::none(),
      "ConfigError for a value that is not allowed, which names the class `owner`; None: the C++ one.");
  declaration.def(
      "fields",
      [] {
        std::vector<py::dict> fields;
        for (const FieldInfo& field : Settings::fields()) {
          fields.push_back(py::dict(py::arg("name") = field.name, py::arg("default") = to_python(field.default_value),
                                    py::arg("allowed") = field.allowed, py::arg("help") = field.help));
        }
        return fields;
      },
      "What is declared of each field: its name, default, what is allowed, help.");
}

}  // namespace

void bind_config(py::module_& module) {
  bind<CheckpointConfig>(module, "CheckpointConfig", "checkpoint_config");
  bind<DebugConfig>(module, "DebugConfig", "debug_config");
  bind<FailureConfig>(module, "FailureConfig", "failure_config");
  bind<RunConfig>(module, "RunConfig", "run_config");
  bind<ScalingConfig>(module, "ScalingConfig", "scaling_config");
  bind<TorchConfig>(module, "TorchConfig", "torch_config");
  bind<TrackerConfig>(module, "TrackerConfig", "tracker_config");
  bind<ValidationTaskConfig>(module, "ValidationTaskConfig", "validation_task_config");
  module.def("new_run_name", &run::new_run_name, py::arg("program"), "For a run that is given none.");
}

}  // namespace paceline::python
