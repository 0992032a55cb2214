// checkpoint/checkpoint.h: the reference to a folder of files.
#include "paceline/checkpoint/checkpoint.h"

#include <pybind11/stl.h>

#include "paceline/checkpoint/manifest.h"
#include "python/bindings/json.h"
#include "python/bindings/modules.h"

namespace paceline::python {
namespace {

// What as_directory() gives: the folder is there for as long as this lives.
struct Folder {
  std::shared_ptr<const std::string> path;
};

}  // namespace

namespace py = pybind11;

void bind_checkpoint(py::module_& module) {
  const auto without_gil = py::call_guard<py::gil_scoped_release>();
  module.attr("MANIFEST_FILE") = checkpoint::kManifestName;
  py::class_<Folder>(module, "Folder").def("__fspath__", [](const Folder& folder) { return *folder.path; });
  py::class_<Checkpoint>(module, "Checkpoint")
      .def_static("from_directory", &Checkpoint::from_directory, py::arg("path"), without_gil)
      .def_static("published", &CheckpointAccess::published, py::arg("path"))
      .def_property_readonly("path", &Checkpoint::path)
      .def("to_directory", &Checkpoint::to_directory, py::arg("path"), without_gil)
      .def(
          "as_directory", [](const Checkpoint& checkpoint) { return Folder{checkpoint.as_directory()}; }, without_gil)
      .def("get_metadata", [](const Checkpoint& checkpoint) { return to_python(checkpoint.get_metadata()); })
      .def("set_metadata", [](Checkpoint& checkpoint,
                              const py::dict& metadata) { checkpoint.set_metadata(to_json(metadata, "metadata")); })
      .def("update_metadata", [](Checkpoint& checkpoint, const py::dict& metadata) {
        checkpoint.update_metadata(to_json(metadata, "metadata"));
      });
}

}  // namespace paceline::python
