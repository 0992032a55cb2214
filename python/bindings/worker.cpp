// train/worker_program.h: a worker process whose train loop is written in Python.
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "paceline/checkpoint/checkpoint.h"
#include "paceline/comm/control_store.h"
#include "paceline/train/worker_program.h"
#include "python/bindings/exception.h"
#include "python/bindings/json.h"
#include "python/bindings/modules.h"

namespace paceline::python {
namespace {

namespace py = pybind11;
using train::WorkerStart;

// Calls the object of paceline._worker. All calls come from the thread that has called run_worker(), with no GIL.
class PythonProgram final : public train::WorkerProgram {
 public:
  explicit PythonProgram(py::object program) : program_(std::move(program)) {}

  // torch.distributed connects the ranks, as the program says.
  std::shared_ptr<comm::Group> connect(const comm::GroupOptions& options, const WorkerStart& start) override {
    return options.world_size == 1 ? WorkerProgram::connect(options, start) : nullptr;
  }

  Json train(const WorkerStart& start) override {
    const py::gil_scoped_acquire gil;
    const auto torch_config = start.welcome.torch_config;
    const auto timeout = std::chrono::milliseconds(static_cast<int64_t>(torch_config.value("timeout_s", 1800.0) * 1e3));
    const c10::intrusive_ptr<c10d::Store> store = comm::make_control_store(start.store, timeout);
    return to_json(
        program_.attr("train")(py::bytes(start.attachment), to_python(torch_config), store, start.assign.node),
        "the return value");
  }

  Metrics validate(const rpc::Welcome& welcome, const std::string& attachment) override {
    const py::gil_scoped_acquire gil;
    return Metrics(
        to_json(program_.attr("validate")(py::bytes(attachment), CheckpointAccess::published(welcome.checkpoint),
                                          to_python(welcome.validation_config)),
                "the validation's metrics"));
  }

  rpc::Failed describe(const std::exception_ptr& exception) override {
    try {
      std::rethrow_exception(exception);
    } catch (const py::error_already_set& error) {
      const py::gil_scoped_acquire gil;
      const py::object said = program_.attr("describe")(exception_of(error));
      return {.kind = said["kind"].cast<std::string>(),
              .text = said["text"].cast<std::string>(),
              .frames = said["frames"].cast<std::vector<std::string>>(),
              .stopped = said["stopped"].cast<bool>(),
              .collateral = said["collateral"].cast<bool>()};
    } catch (...) {
      return WorkerProgram::describe(exception);
    }
  }

  void flush() override {
    {
      const py::gil_scoped_acquire gil;
      program_.attr("flush")();
    }
    WorkerProgram::flush();
  }

 private:
  py::object program_;
};

}  // namespace

void bind_worker(py::module_& module) {
  module.def(
      "run_worker",
      [](py::object program) {
        PythonProgram worker(std::move(program));
        const py::gil_scoped_release without_gil;
        train::run_worker(worker);
      },
      py::arg("program"), "Never returns: the process ends with its work.");
}

}  // namespace paceline::python
