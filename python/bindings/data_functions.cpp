// data/function/: the processes that call functions of Python.
#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <vector>

#include "paceline/core/error.h"
#include "paceline/core/posix/forks.h"
#include "paceline/data/function/forked_processes.h"
#include "paceline/data/function/function_pool.h"
#include "python/bindings/modules.h"
#include "python/bindings/raised_status.h"

namespace paceline::python {

namespace py = pybind11;

namespace {

// Those that there are, which end with the program. The caller holds the GIL.
std::vector<std::weak_ptr<data::ForkedProcesses>>& all() {
  static std::vector<std::weak_ptr<data::ForkedProcesses>> all;
  std::erase_if(all, [](const auto& one) { return one.expired(); });
  return all;
}

arrow::Result<Descriptor> begun(const py::object& begin) {
  const py::gil_scoped_acquire gil;
  try {
    return Descriptor(begin().cast<int>());
  } catch (const std::exception& error) {
    return arrow::Status::IOError("the process from which those that call functions are forked cannot be started: ",
                                  error.what());
  }
}

void for_all(void (data::ForkedProcesses::*function)()) {
  for (const auto& one : all()) {
    if (const auto processes = one.lock()) ((*processes).*function)();
  }
}

}  // namespace

void bind_data_functions(py::module_& module) {
  py::class_<data::ForkedProcesses, std::shared_ptr<data::ForkedProcesses>>(module, "FunctionProcesses")
      .def(py::init([](py::object begin) {
             const int server = begin().cast<int>();
             auto processes = std::make_shared<data::ForkedProcesses>(
                 Descriptor(server), [begin = held(std::move(begin))] { return begun(*begin); });
             all().push_back(processes);
             return processes;
           }),
           py::arg("begin"))
      .def_static("end_all", [] { for_all(&data::ForkedProcesses::end); })
      .def_static("let_go_in_fork", [] { for_all(&data::ForkedProcesses::let_go_in_fork); });
  py::class_<data::FunctionPool, std::shared_ptr<data::FunctionPool>>(module, "FunctionPool")
      .def(py::init([](std::shared_ptr<data::ForkedProcesses> processes,
                       std::vector<std::map<std::string, std::string>> variables, int64_t memory) {
             return make_shared_at_home<data::FunctionPool>(
                 std::move(processes), data::FunctionPoolOptions{.variables = std::move(variables), .memory = memory});
           }),
           py::arg("processes"), py::arg("variables"), py::arg("memory"))
      .def_property_readonly("size", &data::FunctionPool::size)
      .def_property_readonly("pids", &data::FunctionPool::pids);
}

}  // namespace paceline::python
