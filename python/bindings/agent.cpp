// agent/fork/fork_server.h: the process that workers are forked from.
#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include "paceline/agent/fork/fork_server.h"
#include "paceline/core/error.h"
#include "python/bindings/modules.h"

namespace paceline::python {

namespace py = pybind11;

void bind_agent(py::module_& module) {
  module.def(
      "serve_forks",
      [](const std::function<pid_t()>& fork, const std::function<void()>& idle) -> std::optional<rpc::StringMap> {
        // With the GIL throughout: nothing else runs in this process.
        static auto server = value_or_throw(agent::ForkServer::connect());
        const auto worker = value_or_throw(server.serve(fork, idle));
        return worker ? std::optional(worker->environment) : std::nullopt;
      },
      py::arg("fork"), py::arg("idle"),
      "Serves until the guardian is gone: None then. In a forked process: its environment.");
}

}  // namespace paceline::python
