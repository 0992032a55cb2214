// storage/location.h, storage/objects/: where files are, and the file systems that a script brings with it.
#include <pybind11/stl.h>

#include "paceline/core/error.h"
#include "paceline/storage/location.h"
#include "paceline/storage/objects/custom.h"
#include "paceline/storage/objects/scheme.h"
#include "paceline/storage/store_path.h"
#include "python/bindings/file_system.h"
#include "python/bindings/modules.h"

namespace paceline::python {

namespace py = pybind11;

void bind_storage(py::module_& module) {
  py::class_<storage::Scheme>(module, "StorageScheme")
      .def_readonly("names", &storage::Scheme::names)
      .def_readonly("arrow_type", &storage::Scheme::arrow_type)
      .def_readonly("written", &storage::Scheme::written)
      .def_readonly("open_options", &storage::Scheme::open_options);
  module.def("without_credentials", [](const std::string& text) { return storage::Location(text).text(); });
  module.def("storage_schemes", [] {
    const auto rows = storage::schemes();
    return std::vector<storage::Scheme>(rows.begin(), rows.end());
  });
  module.def(
      "add_file_system",
      [](const std::string& id, py::object system) {
        storage::add_file_system(id, make_file_system(std::move(system)));
      },
      py::arg("id"), py::arg("system"));
  module.def(
      "custom_location",
      [](const std::string& id, const std::string& type, const std::string& path) {
        return storage::custom_location(id, type, path).with_credentials();
      },
      py::arg("id"), py::arg("type"), py::arg("path"));
  module.def("custom_id", [](const std::string& location) { return storage::custom_id(location); });
  module.def("path_in_store",
             [](const std::string& location) { return value_or_throw(storage::path_in_store(location)); });
  module.def(
      "part_below",
      [](const std::string& location, const std::string& base) { return storage::part_below(location, base); },
      py::arg("location"), py::arg("base"));
}

}  // namespace paceline::python
