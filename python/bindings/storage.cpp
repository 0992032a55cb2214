// storage/objects/scheme.h: the kinds of object store that a location can name.
#include <pybind11/stl.h>

#include "paceline/storage/location.h"
#include "paceline/storage/objects/scheme.h"
#include "python/bindings/modules.h"

namespace paceline::python {

namespace py = pybind11;

void bind_storage(py::module_& module) {
  py::class_<storage::Scheme>(module, "StorageScheme")
      .def_readonly("names", &storage::Scheme::names)
      .def_readonly("written", &storage::Scheme::written)
      .def_readonly("open_options", &storage::Scheme::open_options);
  module.def("without_credentials", [](const std::string& text) { return storage::Location(text).text(); });
  module.def("storage_schemes", [] {
    const auto rows = storage::schemes();
    return std::vector<storage::Scheme>(rows.begin(), rows.end());
  });
}

}  // namespace paceline::python
