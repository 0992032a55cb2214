// paceline._paceline: Paceline's C++ in Python. It translates and never computes; users import paceline.
#include "python/bindings/modules.h"

PYBIND11_MODULE(_paceline, module) {
  module.doc() = "Paceline's C++ core. Not for users: import paceline.train.";
  module.attr("__version__") = PACELINE_VERSION;
  paceline::python::bind_errors(module);
  paceline::python::bind_agent(module);
  paceline::python::bind_config(module);
  paceline::python::bind_checkpoint(module);
  paceline::python::bind_controller(module);
  paceline::python::bind_data_functions(module);
  paceline::python::bind_data(module);
  paceline::python::bind_data_steps(module);  // whose plans are bound there
  paceline::python::bind_session(module);
  paceline::python::bind_storage(module);
  paceline::python::bind_trainer(module);
  paceline::python::bind_worker(module);
}
