// The exception object of an error that Python code has raised, with its traceback: pybind11 keeps the two apart.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "paceline/rpc/messages.h"

namespace paceline::python {

/// The caller holds the GIL.
inline pybind11::object exception_of(const pybind11::error_already_set& error) {
  pybind11::object exception = error.value();
  if (error.trace()) exception.attr("__traceback__") = error.trace();
  return exception;
}

/// What the program (paceline._worker.Program) says of it. The caller holds the GIL.
inline rpc::Failed failed_of(const pybind11::object& program, const pybind11::error_already_set& error) {
  const pybind11::object said = program.attr("describe")(exception_of(error));
  return {.kind = said["kind"].cast<std::string>(),
          .text = said["text"].cast<std::string>(),
          .frames = said["frames"].cast<std::vector<std::string>>(),
          .stopped = said["stopped"].cast<bool>(),
          .collateral = said["collateral"].cast<bool>()};
}

}  // namespace paceline::python
