// core/config: the settings, which are declared in C++ once: their names, defaults, bounds and help.
#include <pybind11/stl.h>

#include "paceline/core/config/checkpoint_config.h"
#include "paceline/core/config/debug_config.h"
#include "paceline/core/config/failure_config.h"
#include "paceline/core/config/run_config.h"
#include "paceline/core/config/scaling_config.h"
#include "paceline/core/config/tracker_config.h"
#include "paceline/core/error.h"
#include "python/bindings/json.h"
#include "python/bindings/modules.h"

namespace paceline::python {
namespace {

namespace py = pybind11;

template <class Settings>
void bind(py::module_& module, const char* name) {
  py::module_ part = module.def_submodule(name);
  part.def(
      "check",
      [](const py::dict& values) {
        try {
          to_json(values, "").get<Settings>().validate();
        } catch (const Json::exception& error) {
          throw ConfigError(error.what());
        }
      },
      py::arg("values"), "ConfigError for a value that is not allowed.");
  part.def("fields", [] {
    py::list fields;
    for (const FieldInfo& field : Settings::fields()) {
      fields.append(py::dict(py::arg("name") = field.name, py::arg("default") = to_python(field.default_value),
                             py::arg("allowed") = field.allowed, py::arg("help") = field.help));
    }
    return fields;
  });
}

}  // namespace

void bind_config(py::module_& module) {
  bind<CheckpointConfig>(module, "checkpoint_config");
  bind<DebugConfig>(module, "debug_config");
  bind<FailureConfig>(module, "failure_config");
  bind<RunConfig>(module, "run_config");
  bind<ScalingConfig>(module, "scaling_config");
  bind<TrackerConfig>(module, "tracker_config");
}

}  // namespace paceline::python
