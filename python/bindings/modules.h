// The parts of the extension module `paceline._paceline`: each file of this folder binds one module of C++.
#pragma once

#include <pybind11/pybind11.h>

namespace paceline::python {

void bind_agent(pybind11::module_& module);
void bind_errors(pybind11::module_& module);
void bind_config(pybind11::module_& module);
void bind_checkpoint(pybind11::module_& module);
void bind_controller(pybind11::module_& module);
void bind_data(pybind11::module_& module);
void bind_data_functions(pybind11::module_& module);
void bind_data_steps(pybind11::module_& module);
void bind_session(pybind11::module_& module);
void bind_storage(pybind11::module_& module);
void bind_trainer(pybind11::module_& module);
void bind_worker(pybind11::module_& module);

}  // namespace paceline::python
