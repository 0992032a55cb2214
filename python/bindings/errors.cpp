// core/error.h: the kinds of paceline::Error as exceptions of Python.
#include "paceline/core/error.h"

#include "paceline/comm/failure.h"

#include "paceline/train/session.h"
#include "python/bindings/modules.h"

namespace paceline::python {

namespace py = pybind11;

// Each kind is also the exception that Python programs, and those written for Ray Train, expect at such a place.
void bind_errors(py::module_& module) {
  const auto& error = py::register_exception<Error>(module, "PacelineError", PyExc_RuntimeError);
  const auto with = [&](PyObject* kind) { return py::make_tuple(error, py::handle(kind)); };
  py::register_exception<ConfigError>(module, "ConfigError", with(PyExc_ValueError));
  py::register_exception<UsageError>(module, "UsageError", error);
  py::register_exception<StorageError>(module, "StorageError", with(PyExc_OSError));
  static const py::handle collective_error = py::register_exception<CollectiveError>(module, "CollectiveError", error);
  collective_error.attr("collateral") = false;
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const CollectiveError& failure) {
      const py::object raised = collective_error(failure.what());
      raised.attr("collateral") = comm::is_collateral(failure);
      PyErr_SetObject(collective_error.ptr(), raised.ptr());
    }
  });
  // Like KeyboardInterrupt: no handler of the train loop's for what may go wrong takes it for that.
  py::register_exception<Stopped>(module, "Stopped", PyExc_BaseException);
}

}  // namespace paceline::python
