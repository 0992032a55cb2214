// controller/callback.h: callbacks written in Python, called on the controller's thread.
#include <pybind11/stl.h>

#include "paceline/core/error.h"
#include "python/bindings/callback.h"
#include "python/bindings/exception.h"
#include "python/bindings/json.h"
#include "python/bindings/modules.h"

namespace paceline::python {
namespace {

namespace py = pybind11;

class PythonCallback final : public UserCallback {
 public:
  explicit PythonCallback(py::object target) : target_(std::move(target)) {}
  ~PythonCallback() override {
    const py::gil_scoped_acquire gil;
    target_ = py::object();
  }
  PythonCallback(const PythonCallback&) = delete;
  PythonCallback& operator=(const PythonCallback&) = delete;

  std::string name() const override {
    const py::gil_scoped_acquire gil;
    return py::str(target_.attr("name"));
  }
  void after_start(const RunContext& run) override { call("after_start", run); }
  void after_report(const RunContext& run, const std::vector<Metrics>& metrics, const Checkpoint* checkpoint) override {
    const py::gil_scoped_acquire gil;
    py::list all;
    for (const Metrics& one : metrics) all.append(to_python(one.json()));
    call("after_report", run, all, checkpoint == nullptr ? py::object(py::none()) : py::cast(*checkpoint));
  }
  void after_exception(const RunContext& run, const std::map<int64_t, std::string>& errors) override {
    call("after_exception", run, errors);
  }
  void after_finish(const RunContext& run, const RunEnding& ending) override {
    call("after_finish", run, ending.state, ending.error, ending.stop_reason);
  }

 private:
  template <class... Arguments>
  void call(const char* name, const Arguments&... arguments) {
    const py::gil_scoped_acquire gil;
    try {
      target_.attr(name)(arguments...);
    } catch (py::error_already_set& error) {
      throw Error(utf8(target_.attr("text_of")(exception_of(error))));
    }
  }

  py::object target_;
};

}  // namespace

std::shared_ptr<UserCallback> make_callback(py::object target) {
  return std::make_shared<PythonCallback>(std::move(target));
}

void bind_controller(py::module_& module) {
  py::class_<RunContext>(module, "RunContext")
      .def_readonly("name", &RunContext::name)
      .def_readonly("path", &RunContext::path)
      .def_readonly("attempt", &RunContext::attempt)
      .def_readonly("world_size", &RunContext::world_size)
      .def("stop", [](const RunContext& run, const std::string& reason) { run.stop(reason); }, py::arg("reason"));
}

}  // namespace paceline::python
