// checkpoint/checkpoint.h: the reference to a folder of files.
#include "paceline/checkpoint/checkpoint.h"

#include <pybind11/stl.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "paceline/checkpoint/store.h"
#include "paceline/checkpoint/tensor_reader.h"
#include "paceline/core/error.h"
#include "paceline/storage/storage.h"
#include "python/bindings/json.h"
#include "python/bindings/modules.h"

namespace paceline::python {
namespace {

// What as_directory() gives: the folder is there for as long as this lives.
struct Folder {
  std::shared_ptr<const std::string> path;
};

namespace py = pybind11;

struct SavedTensor {
  std::string name, dtype;  // the type in safetensors' words
  checkpoint::Shape shape;
  std::vector<std::byte> bytes;
};

// The tensors of an item, such as "model".
std::vector<SavedTensor> read_item(const Checkpoint& checkpoint, const std::string& item) {
  const py::gil_scoped_release without_gil;
  const auto reader = value_or_throw(checkpoint::TensorReader::open(checkpoint.path()));
  std::vector<SavedTensor> tensors;
  for (const auto& [name, tensor] : reader.manifest().tensors) {
    if (!name.starts_with(item + "/")) continue;
    tensors.push_back({.name = name.substr(item.size() + 1),
                       .dtype = tensor.dtype,
                       .shape = tensor.shape,
                       .bytes = value_or_throw(reader.read_whole(name))});
  }
  return tensors;
}

// Their types, shapes and bytes, by name.
py::dict read_tensors(const Checkpoint& checkpoint, const std::string& item) {
  py::dict tensors;
  for (const auto& tensor : read_item(checkpoint, item)) {
    const py::bytearray bytes(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
    tensors[py::str(tensor.name)] = py::make_tuple(tensor.dtype, tensor.shape, bytes);
  }
  return tensors;
}

}  // namespace

void bind_checkpoint(py::module_& module) {
  const auto without_gil = py::call_guard<py::gil_scoped_release>();
  module.def(
      "published_report",
      [](const std::string& folder) -> std::optional<std::pair<int64_t, double>> {
        const auto found = checkpoint::find_manifest_in(folder);
        if (found.status().IsKeyError()) return std::nullopt;
        const checkpoint::Manifest manifest = value_or_throw(found).manifest;
        return std::pair(manifest.report, manifest.time);
      },
      py::arg("folder"),
      "The report that handed a local checkpoint over, and when; None for one that is not published.");
  py::class_<Folder>(module, "Folder").def("__fspath__", [](const Folder& folder) { return *folder.path; });
  py::class_<Checkpoint>(module, "Checkpoint")
      .def_static(
          "at",
          [](const std::string& path) {
            return CheckpointAccess::published(value_or_throw(storage::resolve_here(path)));
          },
          py::arg("path"), "Of a folder that need not be there yet.")
      .def_static(
          "published", [](const std::string& path) { return CheckpointAccess::published(path); }, py::arg("path"))
      .def_property_readonly("path", &Checkpoint::path)
      .def_property_readonly(
          "path_with_credentials",
          [](const Checkpoint& checkpoint) { return CheckpointAccess::location(checkpoint).with_credentials(); })
      .def("to_directory", &Checkpoint::to_directory, py::arg("path"), without_gil)
      .def(
          "as_directory", [](const Checkpoint& checkpoint) { return Folder{checkpoint.as_directory()}; }, without_gil)
      .def("read_tensors", &read_tensors, py::arg("item"))
      .def("get_metadata",
           [](const Checkpoint& checkpoint) {
             const auto metadata = [&] {
               const py::gil_scoped_release released;
               return checkpoint.get_metadata();
             }();
             return to_python(metadata);
           })
      .def("set_metadata",
           [](Checkpoint& checkpoint, const py::dict& metadata) {
             const Json values = to_json(metadata, "metadata");
             const py::gil_scoped_release released;
             checkpoint.set_metadata(values);
           })
      .def("update_metadata", [](Checkpoint& checkpoint, const py::dict& metadata) {
        const Json values = to_json(metadata, "metadata");
        const py::gil_scoped_release released;
        checkpoint.update_metadata(values);
      });
}

}  // namespace paceline::python
