// The exception object of an error that Python code has raised, with its traceback: pybind11 keeps the two apart.
#pragma once

#include <pybind11/pybind11.h>

namespace paceline::python {

/// The caller holds the GIL.
inline pybind11::object exception_of(const pybind11::error_already_set& error) {
  pybind11::object exception = error.value();
  if (error.trace()) exception.attr("__traceback__") = error.trace();
  return exception;
}

}  // namespace paceline::python
