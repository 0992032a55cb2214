// train/session.h: what a train loop calls.
#include "paceline/train/session.h"

#include <pybind11/functional.h>
#include <pybind11/native_enum.h>
#include <pybind11/stl.h>

#include "paceline/train/prepare_data_loader.h"
#include "paceline/train/progress.h"
#include "paceline/train/worker/language_runtime.h"
#include "python/bindings/exception.h"
#include "python/bindings/json.h"
#include "python/bindings/modules.h"

namespace paceline::python {
namespace {

namespace py = pybind11;

ValidationTaskConfig task_of(const py::dict& values) {
  return to_json(values, "ValidationTaskConfig").get<ValidationTaskConfig>();
}

// From a thread of its own an exception goes to the controller, which is told of it in Python's words; with 0 workers
// it comes back to Python.
CheckpointUploadFn on_a_thread(CheckpointUploadFn upload) {
  return [upload = std::move(upload)](const Checkpoint& checkpoint, const std::string& folder_name) {
    try {
      return upload(checkpoint, folder_name);
    } catch (const py::error_already_set& error) {
      const py::gil_scoped_acquire gil;
      throw train::LanguageException(failed_of(py::module_::import("paceline._worker").attr("Program")(), error),
                                     std::current_exception());
    }
  };
}

void report_to_session(const py::dict& metrics, const std::optional<Checkpoint>& checkpoint, const std::string& reduce,
                       CheckpointUploadMode mode, std::optional<bool> delete_local, CheckpointUploadFn upload,
                       const std::string& dir_name, const std::optional<py::dict>& validation) {
  ReportOptions options{.reduce = reduce,
                        .checkpoint_upload_mode = mode,
                        .delete_local_checkpoint_after_upload = delete_local,
                        .checkpoint_upload_fn = std::move(upload),
                        .checkpoint_dir_name = dir_name};
  if (options.checkpoint_upload_fn && mode == CheckpointUploadMode::async) {
    options.checkpoint_upload_fn = on_a_thread(std::move(options.checkpoint_upload_fn));
  }
  if (validation) options.validation = task_of(*validation);
  const Metrics values(to_json(metrics, "metrics"));
  const py::gil_scoped_release without_gil;
  try {
    report(values, checkpoint, options);
  } catch (const train::LanguageException& error) {
    std::rethrow_exception(error.original());
  }
}

// The session's side of a loader: the phases and steps of the loop, and its end when the run is being stopped.
class Loader {
 public:
  void before_batch() {
    if (batch_) place_.ledger->applied(*std::exchange(batch_, std::nullopt));
    place_.before_batch();
  }
  void after_batch() {
    batch_ = place_.ledger->begin();
    place_.after_batch();
  }
  void after_last_batch() { place_.after_batch(); }

 private:
  LoaderPlace place_ = train::loader_place();
  std::optional<StepLedger::Mark> batch_;
};

}  // namespace

void bind_session(py::module_& module) {
  const auto without_gil = py::call_guard<py::gil_scoped_release>();
  py::native_enum<CheckpointUploadMode>(module, "CheckpointUploadMode", "enum.Enum")
      .value("SYNC", CheckpointUploadMode::sync)
      .value("ASYNC", CheckpointUploadMode::async)
      .value("NO_UPLOAD", CheckpointUploadMode::no_upload)
      .finalize();
  py::native_enum<CheckpointConsistencyMode>(module, "CheckpointConsistencyMode", "enum.Enum")
      .value("COMMITTED", CheckpointConsistencyMode::committed)
      .value("VALIDATED", CheckpointConsistencyMode::validated)
      .finalize();
  py::native_enum<ReportedCheckpointStatus>(module, "ReportedCheckpointStatus", "enum.Enum")
      .value("COMMITTED", ReportedCheckpointStatus::committed)
      .value("PENDING_VALIDATION", ReportedCheckpointStatus::pending_validation)
      .value("VALIDATED", ReportedCheckpointStatus::validated)
      .value("VALIDATION_TIMEOUT", ReportedCheckpointStatus::validation_timeout)
      .value("VALIDATION_FAILED", ReportedCheckpointStatus::validation_failed)
      .finalize();
  py::class_<ReportedCheckpoint>(module, "ReportedCheckpoint")
      .def_readonly("checkpoint", &ReportedCheckpoint::checkpoint)
      .def_property_readonly("metrics", [](const ReportedCheckpoint& one) { return to_python(one.metrics.json()); })
      .def_readonly("status", &ReportedCheckpoint::status);
  py::class_<TrainContext>(module, "TrainContext")
      .def("get_world_rank", &TrainContext::get_world_rank)
      .def("get_world_size", &TrainContext::get_world_size)
      .def("get_local_rank", &TrainContext::get_local_rank)
      .def("get_local_world_size", &TrainContext::get_local_world_size)
      .def("get_node_rank", &TrainContext::get_node_rank)
      .def("get_experiment_name", &TrainContext::get_experiment_name)
      .def("get_attempt", &TrainContext::get_attempt)
      .def("get_storage", &TrainContext::get_storage);
  module.def("report", &report_to_session, py::arg("metrics"), py::arg("checkpoint"), py::arg("reduce"),
             py::arg("checkpoint_upload_mode"), py::arg("delete_local_checkpoint_after_upload"),
             py::arg("checkpoint_upload_fn"), py::arg("checkpoint_dir_name"), py::arg("validation"));
  module.def("get_context", &get_context);
  module.def("checkpoint_requested", &checkpoint_requested, without_gil);
  module.def("run_location", [] { return train::run_location().with_credentials(); });
  module.def(
      "group_place",
      [] {
        const train::GroupPlace place = train::group_place();
        return std::make_tuple(place.address, place.interface, place.master_address);
      },
      "This rank's address and network interface, and rank 0's address, for connections between ranks.");
  module.def("get_checkpoint", &get_checkpoint, without_gil);
  module.def("get_all_reported_checkpoints", &get_all_reported_checkpoints, py::arg("mode"), py::arg("timeout_s"),
             without_gil);
  module.def("get_device", [] {
    const torch::Device device = get_device();
    return device.str();
  });
  module.def("get_devices", [] {
    std::vector<std::string> names;
    for (const torch::Device& device : get_devices()) names.push_back(device.str());
    return names;
  });
  py::class_<Loader>(module, "Loader")
      .def(py::init<>())
      .def("before_batch", &Loader::before_batch)
      .def("after_batch", &Loader::after_batch)
      .def("after_last_batch", &Loader::after_last_batch);
  module.def("void_step", &void_step);
  module.def("show_progress", &train::show_progress, py::arg("label"), py::arg("done"), py::arg("total"),
             py::arg("rate"));
  module.def("barrier", &barrier, without_gil);
  module.def("broadcast_from_rank_zero", [](const py::object& value) {
    const Json json = to_json(value, "the value");
    const auto sent = [&] {
      const py::gil_scoped_release released;
      return broadcast_from_rank_zero(json);
    }();
    return to_python(sent);
  });
}

}  // namespace paceline::python
